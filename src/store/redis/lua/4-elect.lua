-- Which process is the leader, how many processes claim, whether there are ready jobs. The leader is noted in `root`,
-- claimers in `claimers`, in memory alone: after a restart, or on a replica, the first process that asks becomes the
-- leader. So it does when the time of the last leader is over, or is too far in the future.

local CLAIMER_MS = 3000 -- a process that has not asked for so long does not claim

local function count_claimers(P, me, claims, now)
    if claims then
        note('ZADD', P .. 'claimers', now, me)
    end
    note('ZREMRANGEBYSCORE', P .. 'claimers', '-inf', text(now - CLAIMER_MS))
    note('ZREMRANGEBYSCORE', P .. 'claimers', text(now + CLAIMER_MS), '+inf')
    return redis.call('ZCARD', P .. 'claimers')
end

-- Arguments: me, for how many ms it asks to be the leader (0: it resigns), whether it claims.
local function elect(keys, argv)
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
