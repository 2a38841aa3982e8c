-- Units: one writer at a time. `root` has the number of the unit that is open or was the last, and
-- who has it. What a unit has written before its end stands in `journal`, each time a list that
-- takes it back and the list that was carried out; with its commit, or when all was taken back, the
-- journal is gone. Who has the writer's place and who waits for it is only noted, as long as the
-- unit has written nothing: a server that is started again, or a replica, has nobody's connection.

local LIST_MAX = 1000 -- of units that were given up, remembered for those who ask
local WAITER_MS = 500 -- after which one who waits for its turn and no longer asks has left
local HANDED_MS = 500 -- after which one who was handed the place and has not said a word is passed over

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

-- A write that only this run of the server has to know of: neither its log nor a replica gets it.
local function note(...)
    redis.set_repl(redis.REPL_NONE)
    local answer = redis.call(...)
    redis.set_repl(redis.REPL_ALL)
    return answer
end

local function take_back(P)
    for i = redis.call('LLEN', P .. 'journal') - 2, 0, -2 do
        local list = cmsgpack.unpack(redis.call('LINDEX', P .. 'journal', i))
        carry_out(P, list, 1, #list)
    end
end

local function make_again(P)
    for i = 1, redis.call('LLEN', P .. 'journal') - 1, 2 do
        local list = cmsgpack.unpack(redis.call('LINDEX', P .. 'journal', i))
        carry_out(P, list, 1, #list)
    end
end

-- The name that the server gives to the history of its data: another one whenever it has become the
-- primary, so that a server that has followed another one meanwhile, and lost what it alone had, has
-- another one.
local function history()
    return string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or '-'
end

-- A unit that had written is known to the log and to replicas, and that it is over is as well. Others are
-- only noted, and what was noted in another history is no longer so: their numbers were given out again.
local function give_up(P, unit)
    local write, list = note, P .. 'given_up'
    if redis.call('EXISTS', P .. 'journal') == 1 then
        take_back(P)
        redis.call('DEL', P .. 'journal')
        write, list = redis.call, P .. 'taken_back'
    elseif redis.call('HGET', P .. 'root', 'noted_in') ~= history() then
        note('DEL', list)
        note('HSET', P .. 'root', 'noted_in', history())
    end
    write('ZADD', list, unit, unit)
    write('ZREMRANGEBYRANK', list, 0, -LIST_MAX - 1)
    write('HSET', P .. 'root', 'open', '0')
end

-- An error unless the unit is open and the caller's. Renews the lease when half of it is over.
local function guard(P, unit, me)
    local r = redis.call('HMGET', P .. 'root', 'unit', 'open', 'holder', 'lease', 'lease_ms')
    if r[1] ~= unit or r[2] ~= '1' or r[3] ~= me then
        return redis.error_reply('FENCED the unit was given up')
    end
    local now = now_ms()
    if tonumber(r[4]) - now < tonumber(r[5]) / 2 then
        note('HSET', P .. 'root', 'lease', text(now + r[5]))
    end
end

local function strike_off(P, waiter)
    note('ZREM', P .. 'waiting', waiter)
    note('HDEL', P .. 'seen', waiter)
    note('HDEL', P .. 'turns', waiter)
end

-- Whose turn it is among those who wait; nil: nobody waits. Who has to wait asks now and then.
local function first_waiting(P, now)
    while true do
        local first = redis.call('ZRANGE', P .. 'waiting', 0, 0)[1]
        local seen = first and redis.call('HGET', P .. 'seen', first)
        if not first or (seen and math.abs(now - seen) < WAITER_MS) then
            return first
        end
        strike_off(P, first)
    end
end

-- `turn`: client, run and lease of one who listens, and need not ask when it is its turn. Gives how many
-- are before it.
local function wait_for_turn(P, me, now, turn)
    if not redis.call('ZSCORE', P .. 'waiting', me) then
        local last = redis.call('ZRANGE', P .. 'waiting', -1, -1, 'WITHSCORES')
        note('ZADD', P .. 'waiting', (last[2] or 0) + 1, me)
    end
    note('HSET', P .. 'seen', me, text(now))
    if turn then
        note('HSET', P .. 'turns', me, turn)
    end
    return redis.call('ZRANK', P .. 'waiting', me)
end

-- What whoever begins is told: that it does, the unit, the last seq, shared version, number of
-- commits, the time, how many of the commits have meddled with what others have started, or were made
-- by programs that do not say so, the store's id, the history that this is part of.
local function told(P, unit, now)
    local r = redis.call('HMGET', P .. 'root', 'seq', 'shared', 'commits', 'quiet', 'id')
    return {1, unit, r[1], r[2], r[3], text(now), text(r[3] - (r[4] or 0)), r[5] or '', history()}
end

-- A server that was the primary before may have given up a unit of this number, of which no other knew.
-- `first_ms` is how long the holder has for its first word in the unit, with which its lease begins.
local function open_unit(P, unit, me, client, run, lease_ms, first_ms, now)
    note('ZREM', P .. 'given_up', unit)
    note('HSET', P .. 'root', 'unit', unit, 'open', '1', 'holder', me, 'client', client, 'run', run,
        'lease', text(now + first_ms), 'lease_ms', lease_ms)
end

-- The place is free: the first who waits and listens has it at once, and is told so.
local function hand_over(P)
    if redis.call('EXISTS', P .. 'turns') == 0 then
        return
    end
    local now = now_ms()
    local first = first_waiting(P, now)
    local turn = first and redis.call('HGET', P .. 'turns', first)
    if not turn then
        return
    end
    local unit = text(redis.call('HGET', P .. 'root', 'unit') + 1)
    local message = table.concat(told(P, unit, now), ' ')
    redis.set_repl(redis.REPL_NONE)
    local heard = redis.pcall('PUBLISH', P .. 'turn:' .. first, message)
    redis.set_repl(redis.REPL_ALL)
    if (tonumber(heard) or 0) == 0 then
        return -- it will ask
    end
    strike_off(P, first)
    local client, run, lease_ms = string.match(turn, '^(%S+) (%S+) (%S+)$')
    open_unit(P, unit, first, client, run, lease_ms, math.min(HANDED_MS, lease_ms), now)
end

-- me, client, run, lease in ms, number of a unit whose holder is known to be dead, whether it listens
local function begin(keys, argv)
    local P = prefix(keys)
    local me, client, run, lease_ms, dead = argv[1], argv[2], argv[3], argv[4], argv[5]
    local turn = argv[6] == '1' and table.concat({client, run, lease_ms}, ' ') or nil
    local r = redis.call('HMGET', keys[1], 'unit', 'open', 'client', 'run', 'lease', 'holder', 'schema',
        'lease_ms')
    if not r[7] then
        return redis.error_reply('EMPTY there is no store here')
    end
    local now = now_ms()
    if r[2] == '1' then
        -- One's own was handed over before one asked again. One that has written was not: it is over, and
        -- the server has refused to hear so.
        local is_own = r[6] == me and r[3] == client
        local is_over = is_own and redis.call('EXISTS', P .. 'journal') == 1
        -- A lease that is longer than it was given is one of a clock that was set back since.
        local left_ms = (tonumber(r[5]) or 0) - now
        local is_held = left_ms > 0 and left_ms <= (tonumber(r[8]) or 0)
        if r[4] == run and r[1] ~= dead and is_held and not is_over then
            if is_own then
                note('HSET', keys[1], 'lease', text(now + lease_ms))
                return told(P, r[1], now)
            end
            return {0, r[1], r[3], wait_for_turn(P, me, now, turn)}
        end
        give_up(P, r[1])
    end
    if redis.call('EXISTS', P .. 'waiting') == 1 then
        if (first_waiting(P, now) or me) ~= me then
            local before = wait_for_turn(P, me, now, turn)
            hand_over(P)
            return {0, '0', '0', before}
        end
        strike_off(P, me)
    end
    local unit = text(r[1] + 1)
    open_unit(P, unit, me, client, run, lease_ms, lease_ms, now)
    return told(P, unit, now)
end

-- me: one who waits no longer, nor wants a place that it was given meanwhile
local function leave(keys, argv)
    local P = prefix(keys)
    strike_off(P, argv[1])
    local r = redis.call('HMGET', keys[1], 'unit', 'open', 'holder')
    if r[2] == '1' and r[3] == argv[1] then
        give_up(P, r[1])
        hand_over(P)
    end
    return 0
end

-- unit, me, number of elements of the list that takes back, that list, the list to carry out
local function apply(keys, argv)
    local P = prefix(keys)
    local refused = guard(P, argv[1], argv[2])
    if refused then
        return refused
    end
    local n = tonumber(argv[3])
    local back, on = {}, {}
    for i = 1, n do
        back[i] = argv[3 + i]
    end
    for i = 4 + n, #argv do
        on[i - 3 - n] = argv[i]
    end
    redis.call('HSET', keys[1], 'unit', argv[1], 'open', '1', 'holder', argv[2])
    redis.call('RPUSH', P .. 'journal', cmsgpack.pack(back), cmsgpack.pack(on))
    carry_out(P, on, 1, #on)
    return 0
end

-- unit, me, last seq, shared version, whose news it is and what they are, whether it has meddled with
-- jobs that run elsewhere, the list to carry out
local function commit(keys, argv)
    local P = prefix(keys)
    local r = redis.call('HMGET', keys[1], 'unit', 'open', 'holder')
    if r[1] ~= argv[1] or r[2] ~= '1' or r[3] ~= argv[2] then
        return redis.error_reply('FENCED the unit was given up')
    end
    carry_out(P, argv, 8, #argv)
    redis.call('HSET', keys[1], 'unit', argv[1], 'open', '0', 'holder', argv[2], 'seq', argv[3], 'shared',
        argv[4])
    redis.call('HINCRBY', keys[1], 'commits', 1)
    if argv[7] == '0' then
        redis.call('HINCRBY', keys[1], 'quiet', 1)
    end
    redis.call('DEL', P .. 'journal')
    if argv[6] ~= '0' then
        redis.call('PUBLISH', P .. 'changed', argv[5] .. ' ' .. argv[6])
    end
    hand_over(P)
    return 0
end

-- unit, me
local function abort(keys, argv)
    local P = prefix(keys)
    local r = redis.call('HMGET', keys[1], 'unit', 'open', 'holder')
    if r[1] == argv[1] and r[2] == '1' and r[3] == argv[2] then
        give_up(P, argv[1])
        hand_over(P)
    end
    return 0
end

-- Whether a list may have forgotten a unit of this number.
local function is_long_ago(list, n)
    return redis.call('ZCARD', list) >= LIST_MAX and n < tonumber(redis.call('ZRANGE', list, 0, 0)[1])
end

-- unit, me, the history that it was begun in: what has become of it. 1: committed, 0: not, and it never
-- will be, -1: nobody knows. The server compares the history, for a replica has that of its primary until it
-- is promoted.
local function fate(keys, argv)
    local P, n = prefix(keys), tonumber(argv[1])
    local r = redis.call('HMGET', keys[1], 'unit', 'open', 'holder')
    if r[1] == argv[1] and r[2] == '1' and r[3] == argv[2] then
        abort(keys, argv)
        return 0
    end
    local is_same = argv[3] == history()
    local is_noted = redis.call('HGET', keys[1], 'noted_in') == history()
    local unit = tonumber(r[1] or 0)
    if unit < n or redis.call('ZSCORE', P .. 'taken_back', argv[1]) or
        (is_noted and redis.call('ZSCORE', P .. 'given_up', argv[1])) then
        return 0
    end
    if unit == n then
        return r[3] == argv[2] and 1 or 0
    end
    return (not is_same or is_long_ago(P .. 'given_up', n) or is_long_ago(P .. 'taken_back', n)) and -1 or 1
end

-- Numbers for names that a job has for ever: tenant and name of a line, by turns.
local function intern(keys, argv)
    local P, ids = prefix(keys), {}
    for i = 1, #argv, 2 do
        local id = redis.call('HGET', P .. 'line_ids', argv[i + 1])
        if not id then
            local tenant = redis.call('HGET', P .. 'tenant_ids', argv[i])
            if not tenant then
                tenant = redis.call('HINCRBY', keys[1], 'tenants', 1)
                redis.call('HSET', P .. 'tenant_ids', argv[i], tenant)
            end
            id = redis.call('HINCRBY', keys[1], 'lines', 1)
            redis.call('HSET', P .. 'line_ids', argv[i + 1], id)
            redis.call('HSET', P .. 'lines', id, text(tenant) .. ' ' .. argv[i + 1])
        end
        ids[#ids + 1] = text(id)
    end
    return ids
end

-- schema, id: sets an empty place up; gives the version of the one that is there. The shared version
-- starts where no one that was here before has come to, for processes may have seen that one's.
local function setup(keys, argv)
    local schema = redis.call('HGET', keys[1], 'schema')
    if not schema then
        redis.call('HSET', keys[1], 'schema', argv[1], 'unit', '0', 'open', '0', 'seq', '0',
            'shared', text(now_ms()), 'commits', '0', 'lines', '0', 'tenants', '0', 'id', argv[2])
        return '0'
    end
    return schema
end
