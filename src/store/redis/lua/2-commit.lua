-- Commits. No transaction locks anything over a round trip: it reads, computes, and its commit says what it relies
-- on. All of that is checked first; if anything has changed, nothing is written, and the answer names what has
-- changed. Otherwise the operations are carried out. A function is atomic, and so is a commit.

local DRIFT_MS = 1000    -- a transaction whose time differs by more is refused
local RESERVED_MS = 1000 -- how long a job that was given to a claim is given to no other
local RESERVED_FEW = 500 -- up to this many reservations are read at once
local OUTCOME_S = 600    -- how long a handle may ask for the outcome of its last commit

local function prefix(keys)
    return string.sub(keys[1], 1, -5) -- without 'root'
end

local function now_ms()
    local t = redis.call('TIME')
    return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function text(number)
    return string.format('%.0f', number)
end

-- A write in the memory of this server only: neither its log nor a replica gets it. A commit must not write what
-- was noted so before: a command that changes nothing is not logged.
local function note(...)
    redis.set_repl(redis.REPL_NONE)
    local answer = redis.call(...)
    redis.set_repl(redis.REPL_ALL)
    return answer
end

-- The name of the history of the server's data. It changes each time that the server becomes the primary: a server
-- that was a replica meanwhile may have lost what it alone had.
local function history()
    local info = redis.call('INFO', 'replication')
    local _, last = string.find(info, 'master_replid:', 1, true)
    return last and string.sub(info, last + 1, last + 40) or '-'
end

-- The fields of the root; nil and an error: there is no store.
local function store_of(keys)
    local r = redis.call('HMGET', keys[1], 'schema', 'shared', 'commits', 'id', 'seq')
    if not r[1] then
        return nil, redis.error_reply('EMPTY there is no store here')
    end
    return {shared = r[2], commits = r[3], id = r[4] or '', seq = r[5], now = now_ms()}
end

-- The same, if the store is the one of this id.
local function store_named(keys, id)
    local store, missing = store_of(keys)
    if store and store.id ~= id then
        return nil, redis.error_reply('REPLACED ' .. store.id)
    end
    return store, missing
end

-- What every answer begins with, so that no extra request is needed: the time, the shared version, the number of
-- commits, the store's id; and the name of the history, if it is given. To read that takes as long as all the rest,
-- so that only commits do.
local function answer(store, what)
    return {table.concat({text(store.now), store.shared, store.commits, store.id, store.history or ''}, ' '), what}
end

-- The request of a begin whose last answer is too old.
local function hello(keys)
    local store, missing = store_of(keys)
    if missing then
        return missing
    end
    store.history = history()
    return answer(store, 0)
end

-- ---- Reservations ----------------------------------------------------------------------------------------
-- `reserved` has the seqs of jobs that were given to a claim whose transaction has not ended, by the time when the
-- reservation expires. They stay among the ready jobs. It is noted in memory alone: a server that was restarted, or a
-- replica, may give them to another claim; the second of two commits then finds another row.

-- The jobs that are reserved now, as a set; nil: there are none; 'many': each chunk is asked for. Times too far in
-- the future are from before the clock was set back.
local function reserved_now(P, now)
    local key = P .. 'reserved'
    if redis.call('EXISTS', key) == 0 then
        return nil
    end
    note('ZREMRANGEBYSCORE', key, '-inf', text(now))
    note('ZREMRANGEBYSCORE', key, text(now + 2 * RESERVED_MS), '+inf')
    if redis.call('ZCARD', key) > RESERVED_FEW then
        return 'many'
    end
    local seqs, set = redis.call('ZRANGE', key, 0, -1), {}
    for k = 1, #seqs do
        set[tonumber(seqs[k])] = true
    end
    return set
end

-- Which of these seqs, at most some hundred, are reserved.
local function reserved_among(P, seqs)
    local names, set = {}, {}
    for k = 1, #seqs do
        names[k] = text(seqs[k])
    end
    local scores = redis.call('ZMSCORE', P .. 'reserved', unpack(names))
    for k = 1, #seqs do
        set[seqs[k]] = scores[k] and true
    end
    return set
end

local function reserve(P, seqs, now)
    local words, until_ms = {}, text(now + RESERVED_MS)
    for k = 1, #seqs do
        words[#words + 1] = until_ms
        words[#words + 1] = seqs[k]
        if #words == 1000 or k == #seqs then
            note('ZADD', P .. 'reserved', unpack(words))
            words = {}
        end
    end
end

-- Frees the seqs from the ith to the jth of a list.
local function free(P, a, i, j)
    for k = i, j, 1000 do
        note('ZREM', P .. 'reserved', unpack(a, k, math.min(j, k + 999)))
    end
end

-- ---- Processes that wait for jobs ---------------------------------------------------------------------------
-- A claim that is given less than it asks for is noted as waiting, under the name of its process: in `idle:KIND`, by
-- the time of the claim. Claims for the same tenant, queues and tasks are of one kind; `idle` has the kinds. New jobs
-- wake as many processes of each kind as there are jobs, and one more, because one of them may have gone; the latest
-- first. All of it is noted in memory alone.

local KINDS_MAX = 64     -- further ones count as one kind
local WAITING_MAX = 10000

local function waits(P, kind, who, now)
    if redis.call('SISMEMBER', P .. 'idle', kind) == 0 then
        if redis.call('SCARD', P .. 'idle') >= KINDS_MAX then
            kind = '*'
        end
        note('SADD', P .. 'idle', kind)
    end
    note('ZADD', P .. 'idle:' .. kind, text(now), who)
    note('ZREMRANGEBYRANK', P .. 'idle:' .. kind, 0, -WAITING_MAX - 1)
end

local function waits_no_longer(P, kind, who)
    note('ZREM', P .. 'idle:' .. kind, who)
end

-- Wakes up to n processes of a kind, but not the one that has added the jobs: it looks by itself.
local function wake_kind(P, kind, who, n)
    local key = P .. 'idle:' .. kind
    if note('ZREM', key, who) == 1 then
        n = n - 1
    end
    while n > 0 do
        local last = note('ZPOPMAX', key)[1]
        if not last then
            note('SREM', P .. 'idle', kind)
            return
        end
        n = n - note('PUBLISH', P .. 'wake:' .. last, '1')
    end
end

local function wake(P, who, n)
    local kinds = redis.call('SMEMBERS', P .. 'idle')
    for k = 1, #kinds do
        wake_kind(P, kinds[k], who, n)
    end
end

-- seqs …: releases the reservations of a transaction that was rolled back, or of jobs that were looked for in vain.
-- Claims that found them reserved may wait: one process is woken, and wakes the next if there are more jobs.
local function release(keys, argv)
    local P = prefix(keys)
    free(P, argv, 1, #argv)
    wake(P, '', 1)
    return 0
end

-- ---- What a transaction relies on -------------------------------------------------------------------------
-- Letter, key, number of arguments, and these, as in operations. What has changed is added to `refused`: letter, key,
-- field.

local CHECKS = {}

local function refuse(refused, letter, key, field)
    refused[#refused + 1] = letter
    refused[#refused + 1] = key
    refused[#refused + 1] = field
end

-- Every other argument is a field of the hash: the fields, and their values.
local function every_other(key, a, i, j)
    if j == i + 1 then
        return {a[i]}, {redis.call('HGET', key, a[i])}
    end
    local fields = {}
    for k = i, j, 2 do
        fields[#fields + 1] = a[k]
    end
    return fields, redis.call('HMGET', key, unpack(fields))
end

-- Rows of a bucket, and their versions.
function CHECKS.J(P, bucket, a, i, j, refused)
    local fields, rows = every_other(P .. 'j:' .. bucket, a, i, j)
    for k = 1, #fields do
        if not rows[k] or string.sub(rows[k], 7, 9) ~= a[i + 2 * k - 1] then
            refuse(refused, 'J', bucket, fields[k])
        end
    end
end

-- Fields of a hash, and their values; an empty one: there is none.
function CHECKS.H(P, key, a, i, j, refused)
    local fields, values = every_other(P .. key, a, i, j)
    for k = 1, #fields do
        if (values[k] or '') ~= a[i + 2 * k - 1] then
            refuse(refused, 'H', key, fields[k])
        end
    end
end

-- Pairs of hash and field that must not be there: the ids of new jobs, each in a hash of its own.
function CHECKS.A(P, _, a, i, j, refused)
    for k = i, j, 2 do
        if redis.call('HEXISTS', P .. a[k], a[k + 1]) == 1 then
            refuse(refused, 'A', a[k], a[k + 1])
        end
    end
end

-- Shared rows, and the versions that they must have; 0: there is none, +: any.
function CHECKS.S(P, key, a, i, j, refused)
    local fields, rows = every_other(P .. key, a, i, j)
    for k = 1, #fields do
        local version = rows[k] and string.match(rows[k], '^%d+') or '0'
        local wanted = a[i + 2 * k - 1]
        if version ~= wanted and (wanted ~= '+' or not rows[k]) then
            refuse(refused, 'S', key, fields[k])
        end
    end
end

-- Limits, what is added to their slots in use, and how many slots are allowed then.
function CHECKS.L(P, key, a, i, j, refused)
    for k = i, j, 3 do
        if sums_of(P, a[k]) + a[k + 1] > tonumber(a[k + 2]) then
            refuse(refused, 'L', key, a[k])
        end
    end
end

-- The jobs of a unique key: whether a job that is gone holds it for ever, the members that count, and the first of
-- those that do not count, or '-': that is not checked.
function CHECKS.U(P, digest, a, i, _, refused)
    local key, n = P .. 'k:' .. digest, #a[i + 1] / 6
    local counting = redis.call('ZRANGEBYSCORE', key, '-inf', '(4503599627370496', 'LIMIT', 0, n + 1)
    local is_same = redis.call('HEXISTS', P .. 'held', digest) == tonumber(a[i]) and
        table.concat(counting) == a[i + 1]
    if is_same and a[i + 2] ~= '-' then
        local other = redis.call('ZRANGEBYSCORE', key, '4503599627370496', '+inf', 'LIMIT', 0, 1)[1]
        is_same = (other or '') == a[i + 2]
    end
    if not is_same then
        refuse(refused, 'U', digest, '')
    end
end

local function check(P, a, i, last)
    local refused = {'REFUSED'}
    while i < last do
        local n = tonumber(a[i + 2])
        CHECKS[a[i]](P, a[i + 1], a, i + 3, i + 2 + n, refused)
        i = i + 3 + n
    end
    return #refused > 1 and refused or nil
end

-- ---- Commit ----------------------------------------------------------------------------------------------
-- `m:HANDLE` has the number of the handle's last commit; with an x that of a commit that was not made when its
-- outcome was asked for: it will never be made.

local function number_of(last)
    return last and tonumber(string.match(last, '^%d+')) or 0
end

-- Why a commit cannot be made, whatever it relies on.
local function is_void(P, store, a)
    if store.id ~= a[3] or store.history ~= a[4] then
        return {'REFUSED', 'history', '', ''}
    elseif a[5] ~= '' and math.abs(store.now - a[5]) > DRIFT_MS then
        return {'REFUSED', 'time', '', ''}
    elseif number_of(redis.call('GET', P .. 'm:' .. a[1])) >= tonumber(a[2]) then
        return {'REFUSED', 'number', '', ''}
    end
end

-- Sends the notification: bits of enum store_notification. The first bit is for new ready jobs: n_ready of them, or 0: an
-- unknown number.
local function tell(P, who, notification, n_ready)
    local is_ready = notification % 2 == 1
    if is_ready then
        wake(P, who, n_ready > 0 and n_ready + 1 or WAITING_MAX)
    end
    if notification > 1 then
        redis.call('PUBLISH', P .. 'changed', who .. ' ' .. text(is_ready and notification - 1 or notification))
    end
end

-- Arguments: me, number, the store's id, history, the time or '', the last seq or 0, by how much the shared version
-- rises, origin and bits of the notification, number of ready jobs, number of reservations to release, these, number
-- of words of the checks, these, the operations. Returns OK, and the new sums of the limits that it adds to.
local function commit(keys, argv)
    local P = prefix(keys)
    local store, missing = store_of(keys)
    if missing then
        return missing
    end
    store.history = history()
    local last_freed = 11 + tonumber(argv[11])
    local last_checked = last_freed + 1 + tonumber(argv[last_freed + 1])
    free(P, argv, 12, last_freed)
    local refused = is_void(P, store, argv) or check(P, argv, last_freed + 2, last_checked)
    if refused then
        return answer(store, refused)
    end
    redis.call('SET', P .. 'm:' .. argv[1], argv[2], 'EX', OUTCOME_S)
    merged = {}
    carry_out(P, argv, last_checked + 1, #argv)
    if argv[6] ~= '0' then
        redis.call('HSET', keys[1], 'seq', text(math.max(tonumber(store.seq), tonumber(argv[6]))))
    end
    if argv[7] ~= '0' then
        store.shared = text(redis.call('HINCRBY', keys[1], 'shared', argv[7]))
    end
    store.commits = text(redis.call('HINCRBY', keys[1], 'commits', 1))
    tell(P, argv[8], tonumber(argv[9]), tonumber(argv[10]))
    if #merged == 0 then
        return answer(store, 'OK')
    end
    table.insert(merged, 1, 'OK')
    return answer(store, merged)
end

-- Arguments: me, number. Returns whether that commit was made. If not, it never will be: that is noted, in the log as
-- well, because its request may still arrive.
local function outcome(keys, argv)
    local name = prefix(keys) .. 'm:' .. argv[1]
    if redis.call('GET', name) == argv[2] then
        return 1
    end
    if redis.call('EXISTS', keys[1]) == 1 then
        redis.call('SET', name, argv[2] .. 'x', 'EX', OUTCOME_S)
    end
    return 0
end

-- Gives numbers to partitions. Arguments: the store's id, then pairs of tenant and name of a partition.
local function intern(keys, argv)
    local P, ids = prefix(keys), {}
    local store, refused = store_named(keys, argv[1])
    if refused then
        return refused
    end
    for i = 2, #argv, 2 do
        local id = redis.call('HGET', P .. 'partition_ids', argv[i + 1])
        if not id then
            local tenant = redis.call('HGET', P .. 'tenant_ids', argv[i])
            if not tenant then
                tenant = redis.call('HINCRBY', keys[1], 'tenants', 1)
                redis.call('HSET', P .. 'tenant_ids', argv[i], tenant)
            end
            id = redis.call('HINCRBY', keys[1], 'partitions', 1)
            redis.call('HSET', P .. 'partition_ids', argv[i + 1], id)
            redis.call('HSET', P .. 'partitions', id, text(tenant) .. ' ' .. argv[i + 1])
        end
        ids[#ids + 1] = text(id)
    end
    return answer(store, ids)
end

-- Arguments: schema, id. Sets a store up, unless there is one; returns its version. The shared version starts higher
-- than that of any store that was here before, which processes may have cached.
local function setup(keys, argv)
    local schema = redis.call('HGET', keys[1], 'schema')
    if not schema then
        redis.call('HSET', keys[1], 'schema', argv[1], 'seq', '0', 'shared', text(now_ms()), 'commits', '0',
            'partitions', '0', 'tenants', '0', 'id', argv[2])
        return '0'
    end
    return schema
end
