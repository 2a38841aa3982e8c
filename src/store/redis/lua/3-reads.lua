-- Reads. Only the head of a row is read here (row.c): state, flags, partition, version, and the keys of its gates if
-- it has any. The comment of a read lists its arguments, and after the colon what it returns.

local BUCKET = 256        -- seqs of a bucket, and of a chunk
local RANK = 137438953472 -- 2^37: the upper part of a chunk's number is the priority, the lower part the bucket
local HAS_BIG, HAS_GATES = 1, 4
local STATES = 10         -- REDRIVE_STATE_COUNT

local READS = {}

-- Whether a bit is set: Lua 5.1 has no operators for bits.
local function has_bit(mask, bit)
    return math.floor(mask / bit) % 2 == 1
end

local function seq_text(seq)
    return string.format('%.0f', seq)
end

local function seq_of(member)
    local a, b, c, d, e, f = string.byte(member, 1, 6)
    return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end

local function bucket_of(seq)
    return math.floor(seq / BUCKET)
end

-- Whether a row is cut off before its strings, as rd_row_has_big sees it.
local function is_cut_off(row)
    return #row < 9
end

local function has_flag(row, flag)
    return not is_cut_off(row) and has_bit(string.byte(row, 2), flag)
end

-- Adds a row and, if they are wanted, its big parts.
local function add_row(P, out, seq, row, wants_big)
    out[#out + 1] = row or ''
    if row and wants_big and has_flag(row, HAS_BIG) then
        local low = string.char(seq % BUCKET)
        local parts = redis.call('HMGET', P .. 'o:' .. bucket_of(seq), low .. 'p', low .. 'r', low .. 's')
        for i = 1, 3 do
            out[#out + 1] = parts[i] or ''
        end
    end
end

-- The rows of these seqs, with one call for each run of seqs in the same bucket.
local function rows_of(P, seqs)
    local rows, i = {}, 1
    while i <= #seqs do
        local bucket, fields = bucket_of(seqs[i]), {}
        local first = i
        while i <= #seqs and #fields < 500 and bucket_of(seqs[i]) == bucket do
            fields[#fields + 1] = string.char(seqs[i] % BUCKET)
            i = i + 1
        end
        local found = redis.call('HMGET', P .. 'j:' .. bucket, unpack(fields))
        for k = 1, #fields do
            rows[first + k - 1] = found[k]
        end
    end
    return rows
end

local function add_rows(P, out, seqs, wants_big, with_seq, scores)
    local rows = rows_of(P, seqs)
    for i = 1, #seqs do
        if scores then
            out[#out + 1] = scores[i]
        end
        if with_seq then
            out[#out + 1] = seq_text(seqs[i])
        end
        add_row(P, out, seqs[i], rows[i], wants_big)
    end
    return out
end

-- wants big, seqs …: a row each
function READS.rows(P, a, i)
    local seqs = {}
    for k = i + 1, #a do
        seqs[#seqs + 1] = tonumber(a[k])
    end
    return add_rows(P, {}, seqs, a[i] == '1', false)
end

-- pairs of key and field
function READS.cells(P, a, i)
    local out = {}
    for k = i, #a - 1, 2 do
        out[#out + 1] = redis.call('HGET', P .. a[k], a[k + 1]) or ''
    end
    return out
end

-- 'f:' or 'g:', seqs …: for each how many edges it has, and these: the other job, rule and outcome
function READS.edges(P, a, i)
    local out = {}
    for k = i + 1, #a do
        local edges = redis.call('HGETALL', P .. a[i] .. a[k])
        out[#out + 1] = text(#edges / 2)
        for n = 1, #edges do
            out[#out + 1] = edges[n]
        end
    end
    return out
end

-- Adds a parent: its seq, its row, the result that is beside the row, or 1 instead of 0 if that is too long.
local function add_parent(P, out, seq, row, longest)
    local key, field, result, is_long = P .. 'o:' .. bucket_of(seq), string.char(seq % BUCKET) .. 'r', '', '0'
    if has_flag(row, HAS_BIG) then
        is_long = redis.call('HSTRLEN', key, field) > longest and '1' or '0'
        result = is_long == '0' and redis.call('HGET', key, field) or ''
    end
    local n = #out
    out[n + 1], out[n + 2], out[n + 3], out[n + 4] = seq_text(seq), row, result, is_long
end

-- how many of each, the longest result, seqs …: for each how many parents are there, and these
function READS.parents(P, a, i)
    local most, longest, out = tonumber(a[i]), tonumber(a[i + 1]), {}
    for k = i + 2, #a do
        local parents, at, n, from = redis.call('HKEYS', P .. 'g:' .. a[k]), #out + 1, 0, 1
        for m = 1, #parents do
            parents[m] = seq_of(parents[m])
        end
        table.sort(parents)
        out[at] = '0'
        while n < most and from <= #parents do
            local seqs = {unpack(parents, from, math.min(#parents, from + most - 1))}
            local rows = rows_of(P, seqs)
            for m = 1, #seqs do
                if rows[m] and n < most then
                    n = n + 1
                    add_parent(P, out, seqs[m], rows[m], longest)
                end
            end
            from = from + most
        end
        out[at] = text(n)
    end
    return out
end

-- key, cursor: a part of a hash, and the next cursor before it
function READS.scan(P, a, i)
    local r = redis.call('HSCAN', P .. a[i], a[i + 1], 'COUNT', 500)
    table.insert(r[2], 1, r[1])
    return r[2]
end

-- how many seqs are wanted, number of ids, pairs of their key and field, then digests of unique keys: the first of
-- the seqs; a seq for each id; for each unique key the record of a job that is gone, the first job that counts, the
-- first that does not. Seqs are given out in memory alone, and stored by the commit that uses them. A restart
-- forgets them; a commit from before it is refused.
function READS.holders(P, a, i)
    local wanted, n = tonumber(a[i]), tonumber(a[i + 1])
    local out = {text(note('HINCRBY', P .. 'root', 'seq', wanted) - wanted + 1)}
    for k = i + 2, i + 1 + 2 * n, 2 do
        out[#out + 1] = redis.call('HGET', P .. a[k], a[k + 1]) or ''
    end
    for k = i + 2 + 2 * n, #a do
        local key = P .. 'k:' .. a[k]
        out[#out + 1] = redis.call('HGET', P .. 'held', a[k]) or ''
        out[#out + 1] = redis.call('ZRANGEBYSCORE', key, '-inf', '(4503599627370496', 'LIMIT', 0, 1)[1] or ''
        out[#out + 1] = redis.call('ZRANGEBYSCORE', key, '4503599627370496', '+inf', 'LIMIT', 0, 1)[1] or ''
    end
    return out
end

-- hashes …: pairs of field and value of each; 0: there are too many
function READS.shared(P, a, i)
    local out = {}
    for k = i, #a do
        out[#out + 1] = redis.call('HLEN', P .. a[k]) <= 1000 and redis.call('HGETALL', P .. a[k]) or 0
    end
    return out
end

-- digest, index of the first, how many: how many of the jobs of a key count, whether a job that is gone holds it for
-- ever, then seqs, first of those that count
function READS.key_jobs(P, a, i)
    local key, from = P .. 'k:' .. a[i], tonumber(a[i + 1])
    local out = {redis.call('ZCOUNT', key, '-inf', '(4503599627370496'), redis.call('HEXISTS', P .. 'held', a[i])}
    local found = redis.call('ZRANGE', key, from, from + a[i + 2] - 1)
    for k = 1, #found do
        out[#out + 1] = seq_text(seq_of(found[k]))
    end
    return out
end

-- sorted set, highest score, limit: seq and row of up to limit + 1 jobs with this score or a lower one; if there are
-- fewer, of the next job as well
function READS.due(P, a, i)
    local key, limit = P .. a[i], tonumber(a[i + 2])
    local found = redis.call('ZRANGEBYSCORE', key, '-inf', a[i + 1], 'LIMIT', 0, limit + 1)
    if #found <= limit then
        found[#found + 1] = redis.call('ZRANGEBYSCORE', key, '(' .. a[i + 1], '+inf', 'LIMIT', 0, 1)[1]
    end
    for k = 1, #found do
        found[k] = seq_of(found[k])
    end
    return add_rows(P, {}, found, false, true)
end

-- Adds the time-locked jobs of a partition that are due, up to limit + 1, and the next one if there is room.
local function add_locked(P, found, partition, now, limit)
    local key = P .. 'w:' .. partition
    local due = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit + 1)
    if #due <= 2 * limit then
        local later = redis.call('ZRANGEBYSCORE', key, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
        due[#due + 1] = later[1]
        due[#due + 1] = later[2]
    end
    for n = 1, #due, 2 do
        found[#found + 1] = {tonumber(due[n + 1]), seq_of(due[n])}
    end
end

local function is_earlier(x, y)
    if x[1] ~= y[1] then
        return x[1] < y[1]
    end
    return x[2] < y[2]
end

local function keep_first(found, n)
    table.sort(found, is_earlier)
    for k = #found, n + 1, -1 do
        found[k] = nil
    end
end

-- highest time, limit: the same for time-locked jobs of all partitions, in the order of their earliest job. However
-- many jobs are due, few are read: partitions that are later than the jobs found so far are not read.
function READS.locked(P, a, i)
    local high, limit, found, from = a[i], tonumber(a[i + 1]), {}, 0
    local is_over = false
    while not is_over do
        local partitions = redis.call('ZRANGE', P .. 'w', from, from + 99, 'WITHSCORES')
        is_over = #partitions < 200
        for k = 1, #partitions, 2 do
            add_locked(P, found, partitions[k], high, limit)
            if tonumber(partitions[k + 1]) > tonumber(high) then
                is_over = true
                break
            end
            if #found > 2 * limit + 2 then
                keep_first(found, limit + 1)
                high = text(found[limit + 1][1])
            end
        end
        from = from + 100
    end
    keep_first(found, limit + 1)
    local seqs = {}
    for k = 1, #found do
        seqs[k] = found[k][2]
    end
    return add_rows(P, {}, seqs, false, true)
end

-- How many members of a sorted set come before a score and seq; `with`: up to and including it. Members of the same
-- score are in the order of their seqs.
local function count_before(key, score, seq, with)
    local low, high = redis.call('ZCOUNT', key, '-inf', '(' .. score), redis.call('ZCOUNT', key, '-inf', score)
    while low < high do
        local middle = math.floor((low + high) / 2)
        local other = seq_of(redis.call('ZRANGE', key, middle, middle)[1])
        if other < seq or (with and other == seq) then
            low = middle + 1
        else
            high = middle
        end
    end
    return low
end

-- sorted set, '+' or '-', after score and seq or '' twice, how many, perhaps wants big, perhaps wants scores: score, seq, row …
function READS.ranked(P, a, i)
    local key, is_back, place = P .. a[i], a[i + 1] == '-', 0
    if a[i + 2] ~= '' then
        place = count_before(key, a[i + 2], tonumber(a[i + 3]), not is_back)
        place = is_back and redis.call('ZCARD', key) - place or place
    end
    local found = redis.call(is_back and 'ZREVRANGE' or 'ZRANGE', key, place, place + a[i + 4] - 1, 'WITHSCORES')
    local seqs, scores = {}, {}
    for k = 1, #found, 2 do
        seqs[#seqs + 1] = seq_of(found[k])
        scores[#scores + 1] = found[k + 1]
    end
    return add_rows(P, {}, seqs, a[i + 5] == '1', true, a[i + 6] == '1' and scores)
end

-- sorted set, how many: how many it has, then seq, row … of those with the lowest score, from
-- the highest seq on
function READS.foremost(P, a, i)
    local key = P .. a[i]
    local out, first = {redis.call('ZCARD', key)}, redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if #first == 0 then
        return out
    end
    local found = redis.call('ZREVRANGEBYSCORE', key, first[2], first[2], 'LIMIT', 0, a[i + 1])
    for k = 1, #found do
        found[k] = seq_of(found[k])
    end
    return add_rows(P, out, found, false, true)
end

-- A set of partitions from their numbers, four bytes each; nil if there are none: all partitions.
local function set_of_partitions(bytes)
    if bytes == '' then
        return nil
    end
    local set = {}
    for k = 1, #bytes, 4 do
        set[string.sub(bytes, k, k + 3)] = true
    end
    return set
end

-- The seqs of a bucket after a seq: all of them, or those of a tenant, whose index is `own`.
local function seqs_of_bucket(P, own, bucket, after, is_back)
    local seqs = {}
    local is_all = own == ''
    local lows = is_all and redis.call('HKEYS', P .. 'j:' .. bucket) or
        redis.call('SMEMBERS', P .. own .. ':' .. seq_text(bucket))
    for k = 1, #lows do
        local seq = bucket * BUCKET + (is_all and string.byte(lows[k]) or lows[k])
        if (is_back and seq < after) or (not is_back and seq > after) then
            seqs[#seqs + 1] = seq
        end
    end
    table.sort(seqs, is_back and function(x, y) return x > y end or nil)
    return seqs
end

-- Whether a row is in one of the states and partitions, and has the flags. One that is gone or cut off, or in a state
-- that is none, is given, so that the reader names it.
local function fits(row, states, flags, partitions)
    if not row or is_cut_off(row) or string.byte(row) >= STATES then
        return true
    end
    local state, own = string.byte(row, 1, 2)
    return has_bit(states, 2 ^ state) and (flags == 0 or has_bit(own, flags)) and
        (not partitions or partitions[string.sub(row, 3, 6)] == true)
end

-- '+' or '-', after seq, states, flags of a row, partitions, how many, how many to look at, wants big, the
-- index of a tenant or '': the last seq that was looked at (-1: the end), then seq, row … of jobs in these states and
-- partitions
function READS.walk(P, a, i)
    local is_back, after, states, flags = a[i] == '-', tonumber(a[i + 1]), tonumber(a[i + 2]),
        tonumber(a[i + 3])
    local partitions, limit, look = set_of_partitions(a[i + 4]), tonumber(a[i + 5]), tonumber(a[i + 6])
    local out, given, looked = {'-1'}, 0, 0
    local own = a[i + 8]
    local index, bound, some = P .. (own == '' and 'b' or own), bucket_of(after), own == '' and 20 or 200
    local buckets = is_back and redis.call('ZREVRANGEBYSCORE', index, bound, '-inf', 'LIMIT', 0, some) or
        redis.call('ZRANGEBYSCORE', index, bound, '+inf', 'LIMIT', 0, some)
    for k = 1, #buckets do
        local seqs = seqs_of_bucket(P, own, tonumber(buckets[k]), after, is_back)
        local from = 1
        while from <= #seqs do
            local slice = {}
            for n = from, math.min(#seqs, from + math.min(limit - given, 63)) do
                slice[#slice + 1] = seqs[n]
            end
            local rows = rows_of(P, slice)
            for n = 1, #slice do
                if fits(rows[n], states, flags, partitions) then
                    out[#out + 1] = seq_text(slice[n])
                    add_row(P, out, slice[n], rows[n], a[i + 7] == '1')
                    given = given + 1
                end
                looked = looked + 1
                if given == limit or looked == look then
                    out[1] = seq_text(slice[n])
                    return out
                end
            end
            from = from + #slice
        end
    end
    if #buckets == some then
        local last = tonumber(buckets[some])
        out[1] = seq_text(is_back and last * BUCKET or last * BUCKET + BUCKET - 1)
    end
    return out
end

-- states, flags, partitions, wants big, seqs …: the same of these jobs
function READS.picked(P, a, i)
    local states, flags, partitions = tonumber(a[i]), tonumber(a[i + 1]), set_of_partitions(a[i + 2])
    local out, seqs = {'0'}, {}
    for k = i + 4, #a do
        seqs[#seqs + 1] = tonumber(a[k])
    end
    local rows = rows_of(P, seqs)
    for k = 1, #seqs do
        if rows[k] and fits(rows[k], states, flags, partitions) then
            out[#out + 1] = a[i + 3 + k]
            add_row(P, out, seqs[k], rows[k], a[i + 3] == '1')
        end
    end
    return out
end

-- sorted sets …: how many each has
function READS.cards(P, a, i)
    local out = {}
    for k = i, #a do
        out[#out + 1] = redis.call('ZCARD', P .. a[k])
    end
    return out
end

-- how many at the most, sorted sets …: how many they have together and, unless they are more, the members
-- of each
function READS.plan(P, a, i)
    local total, out = 0, {}
    for k = i + 1, #a do
        total = total + redis.call('ZCARD', P .. a[k])
    end
    out[1] = text(total)
    for k = i + 1, total <= tonumber(a[i]) and #a or 0 do
        out[#out + 1] = table.concat(redis.call('ZRANGE', P .. a[k], 0, -1))
    end
    return out
end

-- the last seq that was given out, how many commits there were, how many jobs all partitions have
function READS.census(P, a, i)
    local r, total = redis.call('HMGET', P .. 'root', 'seq', 'commits', 'partitions'), 0
    for partition = 1, tonumber(r[3]) do
        local counts = redis.call('HVALS', P .. 'n:' .. partition)
        for k = 1, #counts do
            total = total + counts[k]
        end
    end
    return {r[1], r[2], text(total)}
end

-- ---- Limits -----------------------------------------------------------------------------------------------

-- The name of the row of a job's limit: tenant and key, each ended by "\0\1". nil: it has none. `tenants` caches the
-- names of tenants by partition. What is damaged has none.
local function limit_of(P, row, tenants)
    if not has_flag(row, HAS_GATES) then
        return nil
    end
    local high, low = string.byte(row, 10, 11)
    local at = low and 12 + high * 256 + low or #row
    high, low = string.byte(row, at, at + 1)
    local len = low and high * 256 + low or 0
    if len == 0 then
        return nil
    end
    local partition = string.sub(row, 3, 6)
    if not tenants[partition] then
        local a, b, c, d = string.byte(partition, 1, 4)
        local name = redis.call('HGET', P .. 'partitions', text(((a * 256 + b) * 256 + c) * 256 + d))
        if not name then
            return nil
        end
        local first = string.find(name, ' ', 1, true) + 1
        tenants[partition] = string.sub(name, first, string.find(name, '\0\1', first, true) + 1)
    end
    return tenants[partition] .. string.gsub(string.sub(row, at + 2, at + 1 + len), '%z', '\0\255') .. '\0\1'
end

-- Adds the limit of a job that a claim is given, with its sums, unless it was added before.
local function note_limit(P, f, row)
    local limit = limit_of(P, row, f.tenants)
    if limit and not f.limits[limit] then
        local used, sent = sums_of(P, limit)
        local n = #f.sums
        f.limits[limit] = true
        f.sums[n + 1], f.sums[n + 2], f.sums[n + 3] = limit, used, sent
    end
end

-- Returns name, running jobs and slots in use of each limit that has any.
function READS.running(P)
    local jobs, used, out, tenants, from = {}, {}, {}, {}, 0
    repeat
        local seqs = redis.call('ZRANGE', P .. 'x', from, from + 499)
        for k = 1, #seqs do
            seqs[k] = seq_of(seqs[k])
        end
        local rows = rows_of(P, seqs)
        for k = 1, #seqs do
            local name = rows[k] and limit_of(P, rows[k], tenants)
            if name then
                jobs[name] = (jobs[name] or 0) + 1
            end
        end
        from = from + 500
    until #seqs < 500
    local names = redis.call('HKEYS', P .. 'limits')
    for k = 1, #names do
        used[names[k]] = sums_of(P, names[k])
        jobs[names[k]] = jobs[names[k]] or 0
    end
    for name, n in pairs(jobs) do
        if n > 0 or used[name] > 0 then
            out[#out + 1] = name
            out[#out + 1] = n
            out[#out + 1] = used[name] or 0
        end
    end
    return out
end

-- the store's id, what, its arguments
local function read(keys, argv)
    local store, refused = store_named(keys, argv[1])
    return refused or answer(store, READS[argv[2]](prefix(keys), argv, 3, store))
end
