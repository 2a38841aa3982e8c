-- What a transaction writes, as a list of operations: each is a letter, a key, the number of its arguments, and these.
-- ops.c makes the lists. Keys come without the prefix of the store.

-- Fields of a hash: put, remove.
local function put_fields(P, key, a, i, j)
    redis.call('HSET', P .. key, unpack(a, i, j))
end
local function drop_fields(P, key, a, i, j)
    redis.call('HDEL', P .. key, unpack(a, i, j))
end

-- Sums; one that has become 0 is removed.
local function add_sums(P, key, a, i, j)
    for k = i, j, 2 do
        if redis.call('HINCRBY', P .. key, a[k], a[k + 1]) == 0 then
            redis.call('HDEL', P .. key, a[k])
        end
    end
end

-- Members of a sorted set.
local function put_ranked(P, key, a, i, j)
    redis.call('ZADD', P .. key, unpack(a, i, j))
end
local function drop_ranked(P, key, a, i, j)
    redis.call('ZREM', P .. key, unpack(a, i, j))
end

-- Rows of a bucket, and the list of buckets.
local function put_rows(P, bucket, a, i, j)
    redis.call('HSET', P .. 'j:' .. bucket, unpack(a, i, j))
    redis.call('ZADD', P .. 'b', bucket, bucket)
end
local function drop_rows(P, bucket, a, i, j)
    redis.call('HDEL', P .. 'j:' .. bucket, unpack(a, i, j))
    if redis.call('EXISTS', P .. 'j:' .. bucket) == 0 then
        redis.call('ZREM', P .. 'b', bucket)
    end
end

-- Seqs in chunks of one bucket each, and the sorted list of chunks: an index of two bytes a job.
local function put_chunk(P, key, a, i, j)
    redis.call('SADD', P .. key .. ':' .. a[i], unpack(a, i + 1, j))
    return redis.call('ZADD', P .. key, a[i], a[i])
end
local function drop_chunk(P, key, a, i, j)
    local chunk = P .. key .. ':' .. a[i]
    redis.call('SREM', chunk, unpack(a, i + 1, j))
    if redis.call('EXISTS', chunk) == 1 then
        return false
    end
    redis.call('ZREM', P .. key, a[i])
    return redis.call('EXISTS', P .. key) == 0
end

-- The same for the ready jobs of a partition, with the lists of partitions of a tenant, which is the first
-- argument, and of tenants that have any.
local function put_ready(P, partition, a, i, j)
    if put_chunk(P, 'r:' .. partition, a, i + 1, j) == 1 then
        redis.call('ZADD', P .. 't:' .. a[i], partition, partition)
        redis.call('ZADD', P .. 't', a[i], a[i])
    end
end
local function drop_ready(P, partition, a, i, j)
    if drop_chunk(P, 'r:' .. partition, a, i + 1, j) then
        redis.call('ZREM', P .. 't:' .. a[i], partition)
        if redis.call('EXISTS', P .. 't:' .. a[i]) == 0 then
            redis.call('ZREM', P .. 't', a[i])
        end
    end
end

-- Time-locked jobs of a partition, and the earliest time of each partition.
local function keep_earliest(P, partition)
    local first = redis.call('ZRANGE', P .. 'w:' .. partition, 0, 0, 'WITHSCORES')
    if first[1] then
        redis.call('ZADD', P .. 'w', first[2], partition)
    else
        redis.call('ZREM', P .. 'w', partition)
    end
end
local function put_locked(P, partition, a, i, j)
    redis.call('ZADD', P .. 'w:' .. partition, unpack(a, i, j))
    keep_earliest(P, partition)
end
local function drop_locked(P, partition, a, i, j)
    redis.call('ZREM', P .. 'w:' .. partition, unpack(a, i, j))
    keep_earliest(P, partition)
end

-- The sums of a limit, by the name of its row: slots in use, and candidates. None: they are 0.
local function sums_of(P, field)
    local used, sent = string.match(redis.call('HGET', P .. 'limits', field) or '', '^(%d+) (%d+)$')
    return tonumber(used or 0), tonumber(sent or 0)
end

-- Adds to the sums of limits: name, slots, candidates. Returns the new sums and the version of the row, in the order
-- of the list.
local merged
local function add_to_limits(P, key, a, i, j)
    for k = i, j, 3 do
        local used, sent = sums_of(P, a[k])
        used, sent = math.max(0, used + a[k + 1]), math.max(0, sent + a[k + 2])
        if used == 0 and sent == 0 then
            redis.call('HDEL', P .. key, a[k])
        elseif a[k + 1] ~= '0' or a[k + 2] ~= '0' then
            redis.call('HSET', P .. key, a[k], string.format('%.0f %.0f', used, sent))
        end
        local n, row = #merged, redis.call('HGET', P .. 's:1', a[k])
        merged[n + 1], merged[n + 2], merged[n + 3] = used, sent, row and string.match(row, '^%d+') or '0'
    end
end

-- The edges of a child, whose seq is the key, and its member in those of its parents the argument.
local function drop_edges(P, child, a, i)
    local parents = redis.call('HKEYS', P .. 'g:' .. child)
    for k = 1, #parents do
        local b1, b2, b3, b4, b5, b6 = string.byte(parents[k], 1, 6)
        local parent = ((((b1 * 256 + b2) * 256 + b3) * 256 + b4) * 256 + b5) * 256 + b6
        redis.call('HDEL', P .. 'f:' .. string.format('%.0f', parent), a[i])
    end
    redis.call('DEL', P .. 'g:' .. child)
end

local OPS = {
    H = put_fields, D = drop_fields, N = add_sums, Z = put_ranked, Y = drop_ranked,
    J = put_rows, K = drop_rows, C = put_chunk, B = drop_chunk, R = put_ready, Q = drop_ready,
    W = put_locked, V = drop_locked, L = add_to_limits, E = drop_edges,
}

-- Carries out the operations of a list from its ith element on.
local function carry_out(P, list, i, last)
    while i < last do
        local n = tonumber(list[i + 2])
        OPS[list[i]](P, list[i + 1], list, i + 3, i + 2 + n)
        i = i + 3 + n
    end
end
