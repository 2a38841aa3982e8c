-- Ready jobs: by tenant, partition, and within a partition by chunks of the same priority and bucket.

-- The members of a chunk in order: each is the seq minus the first seq of its bucket. The server keeps small sets of
-- numbers sorted.
local function members_of(key)
    local members = redis.call('SMEMBERS', key)
    if #members > 1 and redis.call('OBJECT', 'ENCODING', key) ~= 'intset' then
        table.sort(members, function(x, y) return tonumber(x) < tonumber(y) end)
    end
    return members
end

local function seqs_of_chunk(key, base)
    local seqs = members_of(key)
    for k = 1, #seqs do
        seqs[k] = base + seqs[k]
    end
    return seqs
end

-- A walk over the ready jobs of a partition, best first: its position is the member `at` of a chunk. Rows are read
-- ahead.
local function cursor_new(P, partition, rank, task)
    return {key = P .. 'r:' .. partition, rank = rank, task = task, chunk = -1, members = {}, at = 0, rows = {}}
end

-- Which jobs of a chunk are reserved; the set may have others as well.
local function reserved_in(P, r, reserved)
    if reserved ~= 'many' then
        return reserved or {}
    end
    local seqs = {}
    for k = 1, #r.members do
        seqs[k] = r.base + r.members[k]
    end
    return reserved_among(P, seqs)
end

-- Moves before the first job of the next chunk; false at the end.
local function next_chunk(P, r, reserved)
    r.chunk = r.chunk + 1
    local number = redis.call('ZRANGE', r.key, r.chunk, r.chunk)[1]
    if not number then
        return false
    end
    r.priority, r.base = math.floor(number / RANK), number % RANK * BUCKET
    r.members, r.at = members_of(r.key .. ':' .. number), 0
    r.reserved = reserved_in(P, r, reserved)
    return true
end

-- The index of the first job after this one that is not reserved; past the end if there is none.
local function next_free(r, at)
    local members, reserved, base = r.members, r.reserved, r.base
    repeat
        at = at + 1
    until not members[at] or not reserved[base + members[at]]
    return at
end

-- Reads the rows of up to `n` jobs from its position on.
local function read_ahead(P, r, n)
    local seqs, at = {}, r.at
    while #seqs < n and r.members[at] do
        seqs[#seqs + 1] = r.base + r.members[at]
        at = next_free(r, at)
    end
    local rows = rows_of(P, seqs)
    r.rows = {}
    for k = 1, #seqs do
        r.rows[seqs[k]] = rows[k]
    end
end

-- Moves to the next job, reading rows of up to `n` jobs ahead; without a seq at the end.
local function cursor_advance(P, f, r, n)
    r.at = r.chunk < 0 and 1 or next_free(r, r.at)
    while not r.members[r.at] do
        if not next_chunk(P, r, f.reserved) then
            r.seq = nil
            return
        end
        r.at = next_free(r, 0)
    end
    r.seq = r.base + r.members[r.at]
    if r.rows[r.seq] == nil then
        read_ahead(P, r, n)
    end
    r.row = r.rows[r.seq]
end

local function precedes(x, y)
    if x.rank ~= y.rank then
        return x.rank < y.rank
    end
    if x.priority ~= y.priority then
        return x.priority < y.priority
    end
    return x.seq < y.seq
end

-- The best of those whose task may have more, and whether there are any at all.
local function best_of(f, cursors)
    local best, has_any
    for k = 1, #cursors do
        local r = cursors[k]
        has_any = has_any or r.seq
        if r.seq and not (f.room and f.room[r.task] <= 0) and (not best or precedes(r, best)) then
            best = r
        end
    end
    return best, has_any
end

-- Reads n names of the arguments into a table of their indexes.
local function names(a, i)
    local n, set = tonumber(a[i]), {}
    for k = 1, n do
        set[a[i + k]] = set[a[i + k]] or k
    end
    return n > 0 and set or nil, i + 1 + n
end

-- Reads n numbers of the arguments, one for each of the names before them, or none.
local function numbers(a, i, set)
    local n, room = tonumber(a[i]), {}
    for name, place in pairs(set or {}) do
        room[name] = tonumber(a[i + place])
    end
    return n > 0 and room or nil
end

-- The rank of a partition among those that are wanted, or nil, and its task. Its name is tenant, queue and
-- task, which "\0\1" ends.
local function rank_of(P, partition, f)
    if not (f.queues or f.tasks or f.paused) then
        return 0
    end
    local name = redis.call('HGET', P .. 'partitions', partition)
    name = string.sub(name, string.find(name, ' ', 1, true) + 1)
    local first = string.find(name, '\0\1', 1, true)
    local second = string.find(name, '\0\1', first + 2, true)
    local queue, task = string.sub(name, first + 2, second - 1), string.sub(name, second + 2, -3)
    if f.paused and f.paused[string.sub(name, 1, second - 1)] then
        return nil
    end
    if f.tasks and not f.tasks[task] then
        return nil
    end
    return f.queues and f.queues[queue] or (not f.queues and 0) or nil, task
end

local function cursors_of(P, tenant, f)
    local cursors = {}
    local partitions = redis.call('ZRANGE', P .. 't:' .. tenant, 0, -1)
    for k = 1, #partitions do
        local rank, task = rank_of(P, partitions[k], f)
        if rank then
            local r = cursor_new(P, partitions[k], rank, task)
            cursor_advance(P, f, r, #partitions == 1 and f.limit or 1)
            cursors[#cursors + 1] = r
        end
    end
    return cursors
end

-- Adds a job, unless it is too big for what is left of the bytes: then it ends the page.
local function give(P, f, r)
    local row, at, name = r.row, #f.out, seq_text(r.seq)
    f.out[at + 1] = name
    add_row(P, f.out, r.seq, row, true)
    for k = at + 1, f.max_bytes > 0 and #f.out or 0 do
        f.bytes = f.bytes + #f.out[k]
    end
    if f.given > 0 and f.max_bytes > 0 and f.bytes > f.max_bytes then
        for k = #f.out, at + 1, -1 do
            f.out[k] = nil
        end
        f.is_cut = true
        return
    end
    f.given = f.given + 1
    f.names[f.given] = name
    if row then
        note_limit(P, f, row)
    end
    if f.room then
        f.room[r.task] = f.room[r.task] - 1
    end
end

-- Takes the best job of a tenant. The next claim begins with the first tenant that was left out because its tasks had
-- reached their limits: otherwise it could be left out every time.
local function take(P, f, cursors)
    local best, has_any = best_of(f, cursors)
    if not best then
        f.turn_ends = f.turn_ends or has_any and f.turn
        return false
    end
    give(P, f, best)
    if f.is_cut then
        return false
    end
    cursor_advance(P, f, best, #cursors == 1 and f.limit or 1)
    return true
end

local function is_full(f)
    return f.given >= f.limit or f.is_cut
end

-- The tenants with ready jobs, some at a time, in a circle that starts after `last`.
local function tenants_after(P, last, seen)
    local low, high = '(' .. last, '+inf'
    if seen.wrapped then
        low, high = '(' .. seen.wrapped, last
    elseif seen.at then
        low = '(' .. seen.at
    end
    local found = redis.call('ZRANGEBYSCORE', P .. 't', low, high, 'LIMIT', 0, 50)
    if #found > 0 then
        if seen.wrapped then
            seen.wrapped = found[#found]
        else
            seen.at = found[#found]
        end
    elseif not seen.wrapped then
        seen.wrapped = '-1'
        return tenants_after(P, last, seen)
    end
    return found
end

-- The first turn of every tenant: until the page is full, or all tenants are known.
local function first_round(P, f, all)
    local seen = {}
    while true do
        local tenants = f.tenant ~= '' and {f.tenant} or tenants_after(P, f.last, seen)
        for k = 1, #tenants do
            if is_full(f) then
                f.more = true
                return
            end
            local cursors = cursors_of(P, tenants[k], f)
            if take(P, f, cursors) then
                f.turn = tenants[k]
            end
            all[#all + 1] = cursors
        end
        if #tenants == 0 or f.tenant ~= '' then
            return
        end
    end
end

-- The paused queues, as prefixes of the names of partitions; nil: there are none.
local function paused_now(P)
    local names, set = redis.call('HKEYS', P .. 's:2'), nil
    for k = 1, #names do
        set = set or {}
        set[string.sub(names[k], 1, -3)] = true
    end
    return set
end

-- shared version or '', limit, bytes, tenant or '', the tenant that had the last turn, the kind of the claim ('': it
-- does not wait), its origin, queues, tasks, limits of tasks: whether there are more, the tenant that had the last
-- turn, the limits of the jobs with their sums, then seq, row … of jobs, which are reserved from now on; or an error
-- if the shared version is another one
function READS.ready(P, a, i, store)
    if a[i] ~= '' and a[i] ~= store.shared then
        return 'CHANGED'
    end
    local f = {limit = tonumber(a[i + 1]), max_bytes = tonumber(a[i + 2]), tenant = a[i + 3],
        last = a[i + 4], given = 0, bytes = 0, out = {'0', a[i + 4], {}}, turn = a[i + 4], names = {},
        limits = {}, sums = {}, tenants = {},
        paused = paused_now(P), reserved = reserved_now(P, store.now)}
    local kind, who = a[i + 5], a[i + 6]
    i = i + 7
    f.queues, i = names(a, i)
    f.tasks, i = names(a, i)
    f.room = numbers(a, i, f.tasks)
    local all = {}
    first_round(P, f, all)
    local moved = true
    while moved and not is_full(f) do
        moved = false
        for k = 1, #all do
            if not is_full(f) and take(P, f, all[k]) then
                moved = true
            end
        end
    end
    for k = 1, #all do
        f.more = f.more or best_of(f, all[k]) ~= nil
    end
    reserve(P, f.names, store.now)
    if kind ~= '' and f.given < f.limit and not f.is_cut then
        waits(P, kind, who, store.now)
    elseif kind ~= '' then
        waits_no_longer(P, kind, who)
        if f.more then
            wake(P, who, 1)
        end
    end
    f.out[1] = f.more and '1' or '0'
    f.out[2] = f.turn_ends or f.turn
    f.out[3] = f.sums
    return f.out
end

-- partition, number of the chunk to start in, after seq, how many: number of the last chunk, then seq,
-- row … of the ready jobs of a partition, best first
function READS.partition(P, a, i)
    local key, after, limit = P .. 'r:' .. a[i], tonumber(a[i + 2]), tonumber(a[i + 3])
    local number, seqs = a[i + 1], {}
    local chunks = redis.call('ZRANGEBYSCORE', key, number, '+inf', 'LIMIT', 0, limit + 1)
    local places = {}
    for k = 1, #chunks do
        local own = seqs_of_chunk(key .. ':' .. chunks[k], chunks[k] % RANK * BUCKET)
        for n = 1, #own do
            if #seqs < limit and (chunks[k] ~= number or own[n] > after) then
                seqs[#seqs + 1] = own[n]
                places[#places + 1] = chunks[k]
            end
        end
        if #seqs == limit then
            break
        end
    end
    local out, rows = {}, rows_of(P, seqs)
    for k = 1, #seqs do
        out[#out + 1] = places[k]
        out[#out + 1] = seq_text(seqs[k])
        out[#out + 1] = rows[k] or ''
    end
    return out
end

-- list of chunks, how many: seq, row … by seq
function READS.chunks(P, a, i)
    local key, limit, seqs = P .. a[i], tonumber(a[i + 1]), {}
    local from = 0
    while #seqs < limit do
        local chunk = redis.call('ZRANGE', key, from, from)[1]
        if not chunk then
            break
        end
        local own = seqs_of_chunk(key .. ':' .. chunk, chunk * BUCKET)
        for n = 1, math.min(#own, limit - #seqs) do
            seqs[#seqs + 1] = own[n]
        end
        from = from + 1
    end
    return add_rows(P, {}, seqs, false, true)
end

-- The lowest seq of the ready jobs of a partition: each priority has its own first.
local function oldest_ready(P, partition)
    local key, from, oldest = P .. 'r:' .. partition, '-inf', nil
    while true do
        local chunk = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'LIMIT', 0, 1)[1]
        if not chunk then
            return oldest
        end
        local seq = seqs_of_chunk(key .. ':' .. chunk, chunk % RANK * BUCKET)[1]
        oldest = (not oldest or seq < oldest) and seq or oldest
        from = string.format('%.0f', (math.floor(chunk / RANK) + 1) * RANK)
    end
end

-- partitions …: of each that has jobs its number, how many stand in each state ('state count ' …), the row
-- of its oldest ready job, and of its first time-locked one
function READS.sums(P, a, i)
    local out = {}
    for k = i, #a do
        local counts = redis.call('HGETALL', P .. 'n:' .. a[k])
        if #counts > 0 then
            local oldest = oldest_ready(P, a[k])
            local first = redis.call('ZRANGE', P .. 'w:' .. a[k], 0, 0)[1]
            out[#out + 1] = a[k]
            out[#out + 1] = table.concat(counts, ' ')
            out[#out + 1] = oldest and seq_text(oldest) or ''
            out[#out + 1] = oldest and rows_of(P, {oldest})[1] or ''
            out[#out + 1] = first and rows_of(P, {seq_of(first)})[1] or ''
        end
    end
    return out
end

-- after, limit: members of a set that is sorted as bytes
function READS.lex(P, a, i)
    return redis.call('ZRANGEBYLEX', P .. a[i], a[i + 1], '+', 'LIMIT', 0, a[i + 2])
end
