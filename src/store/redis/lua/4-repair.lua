-- Repair: takes jobs out whose rows cannot be read, then what still names a job that has no row, then counts anew. Each
-- call leaves the store such that another process, or another repair, can go on from there (repair.c).

local CHUNKS_AT_ONCE = 20
local MEMBERS_AT_ONCE = 500

-- The low bytes of the seqs that have a row in a bucket.
local function lows_of_bucket(P, bucket)
    local lows, set = redis.call('HKEYS', P .. 'j:' .. bucket), {}
    for k = 1, #lows do
        set[string.byte(lows[k])] = true
    end
    return set
end

-- The low bytes in a chunk of an index whose jobs have no row.
local function lost_of_chunk(P, key, chunk)
    local lows, lost = members_of(P .. key .. ':' .. chunk), {}
    local there = lows_of_bucket(P, text(chunk % RANK))
    for k = 1, #lows do
        if not there[tonumber(lows[k])] then
            lost[#lost + 1] = lows[k]
        end
    end
    return lost
end

-- The next chunks of an index from this one on, and the one to go on with, '' at the end.
local function some_chunks(P, key, from)
    local chunks = redis.call('ZRANGEBYSCORE', P .. key, from, '+inf', 'LIMIT', 0, CHUNKS_AT_ONCE + 1)
    local rest = chunks[CHUNKS_AT_ONCE + 1] or ''
    chunks[CHUNKS_AT_ONCE + 1] = nil
    return chunks, rest
end

-- index of a tenant, chunk to begin with: the chunk to go on with or '', then the seqs of its jobs that have no row
function READS.lost(P, a, i)
    local chunks, rest = some_chunks(P, a[i], a[i + 1])
    local out = {rest}
    for k = 1, #chunks do
        local lost = lost_of_chunk(P, a[i], chunks[k])
        for n = 1, #lost do
            out[#out + 1] = seq_text(chunks[k] * BUCKET + lost[n])
        end
    end
    return out
end

-- The hashes that have something of a job beside its row, by the first byte of the field.
local BESIDE = {'o:', 'a:'}

-- seq: key, field and value of all that hashes have of a job: its row, what is beside it, the edges from its parents
function READS.remains(P, a, i)
    local seq, out = tonumber(a[i]), {}
    local bucket, low = text(bucket_of(seq)), string.char(seq % BUCKET)
    local row, edges = redis.call('HGET', P .. 'j:' .. bucket, low), redis.call('HGETALL', P .. 'g:' .. a[i])
    if row then
        out = {'j:' .. bucket, low, row}
    end
    for _, name in ipairs(BESIDE) do
        local fields = redis.call('HKEYS', P .. name .. bucket)
        for k = 1, #fields do
            if string.sub(fields[k], 1, 1) == low then
                out[#out + 1] = name .. bucket
                out[#out + 1] = fields[k]
                out[#out + 1] = redis.call('HGET', P .. name .. bucket, fields[k]) or ''
            end
        end
    end
    for k = 1, #edges, 2 do
        out[#out + 1] = 'g:' .. a[i]
        out[#out + 1] = edges[k]
        out[#out + 1] = edges[k + 1]
    end
    return out
end

local function member_of(seq)
    local bytes = {}
    for k = 6, 1, -1 do
        bytes[k] = string.char(seq % 256)
        seq = math.floor(seq / 256)
    end
    return table.concat(bytes)
end

-- Takes what READS.remains gives out of the store.
local function drop_remains(P, seq)
    local bucket, low = text(bucket_of(seq)), string.char(seq % BUCKET)
    drop_rows(P, bucket, {low}, 1, 1)
    for _, name in ipairs(BESIDE) do
        local fields = redis.call('HKEYS', P .. name .. bucket)
        for k = 1, #fields do
            if string.sub(fields[k], 1, 1) == low then
                redis.call('HDEL', P .. name .. bucket, fields[k])
            end
        end
    end
    drop_edges(P, text(seq), {member_of(seq)}, 1)
end

-- The store's id, a seq, and its row as it was read, '' for none. Returns whether the job was taken out: another
-- process may have changed its row.
local function set_aside(keys, argv)
    local P = prefix(keys)
    local store, refused = store_named(keys, argv[1])
    if refused then
        return refused
    end
    local seq = tonumber(argv[2])
    local row = redis.call('HGET', P .. 'j:' .. text(bucket_of(seq)), string.char(seq % BUCKET))
    if (row or '') ~= argv[3] then
        return answer(store, 0)
    end
    drop_remains(P, seq)
    store.commits = text(redis.call('HINCRBY', keys[1], 'commits', 1))
    return answer(store, 1)
end

-- Whether a member names a job that has a row.
local function is_there(P, member)
    if #member ~= 6 then
        return false
    end
    local seq = seq_of(member)
    return redis.call('HEXISTS', P .. 'j:' .. text(bucket_of(seq)), string.char(seq % BUCKET)) == 1
end

-- Each takes some entries without a row out of one kind of index: how many, and where to go on, '' at the end.
local SWEEPS = {}

-- A sorted set of jobs.
function SWEEPS.ranked(P, key, cursor)
    local r, n = redis.call('ZSCAN', P .. key, cursor, 'COUNT', MEMBERS_AT_ONCE), 0
    for k = 1, #r[2], 2 do
        if not is_there(P, r[2][k]) then
            n = n + redis.call('ZREM', P .. key, r[2][k])
        end
    end
    return n, r[1] == '0' and '' or r[1]
end

-- The same of the time-locked jobs of a partition.
function SWEEPS.locked(P, partition, cursor)
    local n, rest = SWEEPS.ranked(P, 'w:' .. partition, cursor)
    keep_earliest(P, partition)
    return n, rest
end

-- A hash of ids.
function SWEEPS.ids(P, key, cursor)
    local r, n = redis.call('HSCAN', P .. key, cursor, 'COUNT', MEMBERS_AT_ONCE), 0
    for k = 1, #r[2], 2 do
        if not is_there(P, r[2][k + 1]) then
            n = n + redis.call('HDEL', P .. key, r[2][k])
        end
    end
    return n, r[1] == '0' and '' or r[1]
end

local function sweep_chunks(P, key, from, drop)
    local chunks, rest = some_chunks(P, key, from)
    local n = 0
    for k = 1, #chunks do
        local lost = lost_of_chunk(P, key, chunks[k])
        if #lost > 0 then
            n = n + #lost
            drop(chunks[k], lost)
        end
    end
    return n, rest
end

-- A list of chunks.
function SWEEPS.chunks(P, key, from)
    return sweep_chunks(P, key, from, function(chunk, lost)
        table.insert(lost, 1, chunk)
        drop_chunk(P, key, lost, 1, #lost)
    end)
end

-- The ready jobs of a partition.
function SWEEPS.ready(P, partition, from)
    local name = redis.call('HGET', P .. 'partitions', partition) or ''
    local tenant = string.match(name, '^%d+') or ''
    return sweep_chunks(P, 'r:' .. partition, from, function(chunk, lost)
        table.insert(lost, 1, chunk)
        table.insert(lost, 1, tenant)
        drop_ready(P, partition, lost, 1, #lost)
    end)
end

-- The edges of a child.
function SWEEPS.edges(P, child)
    local member = member_of(tonumber(child))
    if is_there(P, member) then
        return 0, ''
    end
    drop_edges(P, child, {member}, 1)
    return 1, ''
end

-- How many jobs are parked in a gate.
function SWEEPS.parked(P, gate)
    local there, counted = redis.call('ZCARD', P .. 'p:' .. gate), redis.call('HGET', P .. 'l', gate)
    if tonumber(counted or 0) == there then
        return 0, ''
    elseif there == 0 then
        redis.call('HDEL', P .. 'l', gate)
    else
        redis.call('HSET', P .. 'l', gate, there)
    end
    return 1, ''
end

-- The store's id, a kind of index, its name, where to begin. Returns where to go on, and how many entries have gone.
local function sweep(keys, argv)
    local P = prefix(keys)
    local store, refused = store_named(keys, argv[1])
    if refused then
        return refused
    end
    local n, rest = SWEEPS[argv[2]](P, argv[3], argv[4])
    return answer(store, {rest, text(n)})
end

-- How many jobs each partition has in each state, by its rows: partition, then state, then number.
local function count_rows(P)
    local buckets, counts = redis.call('ZRANGE', P .. 'b', 0, -1), {}
    for k = 1, #buckets do
        local rows = redis.call('HVALS', P .. 'j:' .. buckets[k])
        for n = 1, #rows do
            local state = string.byte(rows[n])
            if not is_cut_off(rows[n]) and state < STATES then
                local own = string.sub(rows[n], 3, 6)
                counts[own] = counts[own] or {}
                counts[own][state] = (counts[own][state] or 0) + 1
            end
        end
    end
    return counts
end

-- Counts the jobs of all partitions anew. In one call, since each commit moves counts and rows together. Arguments:
-- the store's id. Returns how many counts were wrong.
local function recount(keys, argv)
    local P = prefix(keys)
    local store, refused = store_named(keys, argv[1])
    if refused then
        return refused
    end
    local counts, wrong = count_rows(P), 0
    for partition = 1, tonumber(redis.call('HGET', keys[1], 'partitions')) do
        local own = string.char(math.floor(partition / 16777216) % 256, math.floor(partition / 65536) % 256,
            math.floor(partition / 256) % 256, partition % 256)
        for state = 0, STATES - 1 do
            local key, n = P .. 'n:' .. partition, (counts[own] or {})[state] or 0
            if tonumber(redis.call('HGET', key, state) or 0) ~= n then
                wrong = wrong + 1
                if n == 0 then
                    redis.call('HDEL', key, state)
                else
                    redis.call('HSET', key, state, n)
                end
            end
        end
    end
    if wrong > 0 then
        store.commits = text(redis.call('HINCRBY', keys[1], 'commits', 1))
    end
    return answer(store, wrong)
end
