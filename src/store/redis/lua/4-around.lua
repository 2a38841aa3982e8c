-- Which process is the leader, how many claim, whether there is anything to take. The leader is
-- noted in `root`, who claims in `claimers`, in memory alone: a server that is started again, or a
-- replica, takes whoever asks first, and so it does when the time of the one that had it is
-- over, or lies too far ahead.

local CLAIMER_MS = 3000 -- after which one that looks no longer does not claim

local function count_claimers(P, me, claims, now)
    if claims then
        note('ZADD', P .. 'claimers', now, me)
    end
    note('ZREMRANGEBYSCORE', P .. 'claimers', '-inf', text(now - CLAIMER_MS))
    note('ZREMRANGEBYSCORE', P .. 'claimers', text(now + CLAIMER_MS), '+inf')
    return redis.call('ZCARD', P .. 'claimers')
end

-- me, for how many ms it would be the leader, 0: not any longer; whether it claims
local function around(keys, argv)
    local P, me, keep_ms = prefix(keys), argv[1], tonumber(argv[2])
    local r = redis.call('HMGET', keys[1], 'schema', 'keeper', 'keeper_until', 'keeper_ms')
    if not r[1] then
        return redis.error_reply('EMPTY there is no store here')
    end
    local now = now_ms()
    local left = r[2] and r[3] - now or 0
    local is_free = r[2] == me or left <= 0 or left > tonumber(r[4])
    if is_free and keep_ms > 0 then
        note('HSET', keys[1], 'keeper', me, 'keeper_until', text(now + keep_ms), 'keeper_ms', argv[2])
    elseif r[2] == me then
        note('HDEL', keys[1], 'keeper', 'keeper_until', 'keeper_ms')
    end
    return {is_free and keep_ms > 0 and 1 or 0, count_claimers(P, me, argv[3] == '1', now),
        redis.call('EXISTS', P .. 't')}
end
