-- Commits. Nobody holds anything over a round trip: a transaction reads, computes, and its commit says what it has
-- relied upon. All of that is compared first; if one thing is no longer so, nothing is written, and the answer
-- names what has changed. Else the operations are carried out. A function is atomic, so a commit is.

local DRIFT_MS = 1000    -- a transaction whose clock is further off is refused
local RESERVED_MS = 1000 -- for so long a job that was given to a claim is given to no other
local RESERVED_FEW = 500 -- up to so many are known at once
local OUTCOME_S = 600    -- for so long a handle may ask what has become of its last commit

local function prefix(keys)
    return string.sub(keys[1], 1, -5) -- less 'root'
end

local function now_ms()
    local t = redis.call('TIME')
    return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function text(number)
    return string.format('%.0f', number)
end

-- A write that only this run of the server has to know of: neither its log nor a replica gets it. Nothing that
-- a commit writes may have been written so before: what changes nothing any more is not logged either.
local function note(...)
    redis.set_repl(redis.REPL_NONE)
    local answer = redis.call(...)
    redis.set_repl(redis.REPL_ALL)
    return answer
end

-- The name that the server gives to the history of its data: another one whenever it has become the
-- primary, so that a server that has followed another one meanwhile, and lost what it alone had, has
-- another one.
local function history()
    local info = redis.call('INFO', 'replication')
    local _, last = string.find(info, 'master_replid:', 1, true)
    return last and string.sub(info, last + 1, last + 40) or '-'
end

-- What the root says of the store; nil and an error: there is none.
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

-- What every answer begins with, so that nobody has to ask for it: the time, the shared version, the number of
-- commits, the store's id; and the history that this is part of, if that was looked at, which takes as long as all
-- the rest: reads leave it to the commit.
local function answer(store, what)
    return {table.concat({text(store.now), store.shared, store.commits, store.id, store.history or ''}, ' '), what}
end

-- What whoever begins asks if it has heard nothing of late.
local function hello(keys)
    local store, missing = store_of(keys)
    if missing then
        return missing
    end
    store.history = history()
    return answer(store, 0)
end

-- ---- Reservations ----------------------------------------------------------------------------------------
-- `reserved` has the seqs of jobs that were given to a claim whose transaction has not ended, by the time when that
-- is over. They stay among the ready jobs. It is noted in memory alone: a server that is started again, or a
-- replica, gives them to whoever asks first; of two commits the second finds another row.

-- The jobs that are given to nobody now, as a set; nil: there are none; 'many': they are asked for when they are
-- met. What lies too far ahead is of a clock that was set back since.
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

-- Which of some hundred seqs at the most are reserved.
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

-- ---- Who waits for jobs -----------------------------------------------------------------------------------
-- A claim that is given less than it asks for waits, under the name of its process: in `idle:KIND`, by the time
-- of the claim; claims for the same tenant, queues and tasks are of one kind, and `idle` has the kinds. New jobs
-- wake as many of each kind as there are jobs, and one more, for one of them may have left; the latest first.
-- All of it is noted in memory alone.

local KINDS_MAX = 64     -- more are taken for one
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

-- Wakes up to n of a kind. The process that brings the jobs looks by itself.
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

-- seqs …: those of a transaction that was rolled back, or that were looked for in vain. Whoever has met them meanwhile
-- waits: one of these looks again, and wakes the next if there are more.
local function release(keys, argv)
    local P = prefix(keys)
    free(P, argv, 1, #argv)
    wake(P, '', 1)
    return 0
end

-- ---- What a transaction has relied upon -------------------------------------------------------------------------
-- Letter, key, number of arguments, and these, as operations have them. What is no longer so is added to
-- `refused`: letter, key, field.

local CHECKS = {}

local function refuse(refused, letter, key, field)
    refused[#refused + 1] = letter
    refused[#refused + 1] = key
    refused[#refused + 1] = field
end

-- The fields of a hash that are named at every other place, and their values.
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

-- Hashes and fields, by turns, that are not there: the ids of new jobs, of which each is in another hash.
function CHECKS.A(P, _, a, i, j, refused)
    for k = i, j, 2 do
        if redis.call('HEXISTS', P .. a[k], a[k + 1]) == 1 then
            refuse(refused, 'A', a[k], a[k + 1])
        end
    end
end

-- Rows that processes share, and the versions that they begin with; 0: there is none, +: there is one.
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

-- Limits, what is to be added to their slots in use, and how many of these there may be then.
function CHECKS.L(P, key, a, i, j, refused)
    for k = i, j, 3 do
        if sums_of(P, a[k]) + a[k + 1] > tonumber(a[k + 2]) then
            refuse(refused, 'L', key, a[k])
        end
    end
end

-- The jobs of a unique key: whether it is held by one that is gone, the members that count, and the first of
-- those that do not, or '-': it does not matter.
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
-- `m:HANDLE` has the number of the handle's last commit, or of one that was asked for in vain, with an x: that
-- one will never be made.

local function number_of(last)
    return last and tonumber(string.match(last, '^%d+')) or 0
end

-- Why a commit cannot be made, whatever it relies upon.
local function is_void(P, store, a)
    if store.id ~= a[3] or store.history ~= a[4] then
        return {'REFUSED', 'history', '', ''}
    elseif a[5] ~= '' and math.abs(store.now - a[5]) > DRIFT_MS then
        return {'REFUSED', 'time', '', ''}
    elseif number_of(redis.call('GET', P .. 'm:' .. a[1])) >= tonumber(a[2]) then
        return {'REFUSED', 'number', '', ''}
    end
end

-- Tells others what is new: bits of enum store_notification, the first for jobs that have come into a queue, so many,
-- or 0: nobody knows.
local function tell(P, who, notification, n_ready)
    local is_ready = notification % 2 == 1
    if is_ready then
        wake(P, who, n_ready > 0 and n_ready + 1 or WAITING_MAX)
    end
    if notification > 1 then
        redis.call('PUBLISH', P .. 'changed', who .. ' ' .. text(is_ready and notification - 1 or notification))
    end
end

-- me, number, the store's id, history, the time or '', the last seq or 0, by how much the shared version rises,
-- who notifies and of what, of how many jobs, number of jobs to free, these, number of words that it
-- relies upon, these, the list to carry out: OK, and the sums of the limits that it adds to
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

-- me, number: whether that commit was made. If not, it never will be: it is given up, in the log as well, for
-- its request may still be under way.
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

-- Numbers for names that a job has for ever: the store's id, then tenant and name of a partition, by turns.
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

-- schema, id: sets an empty place up; gives the version of the one that is there. The shared version
-- starts where no one that was here before has come to, for processes may have seen that one's.
local function setup(keys, argv)
    local schema = redis.call('HGET', keys[1], 'schema')
    if not schema then
        redis.call('HSET', keys[1], 'schema', argv[1], 'seq', '0', 'shared', text(now_ms()), 'commits', '0',
            'partitions', '0', 'tenants', '0', 'id', argv[2])
        return '0'
    end
    return schema
end
