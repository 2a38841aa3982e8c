-- Which limit a job runs under, and what the limits' sums are.

-- The name of the row of a job's limit: tenant and key, each ended by "\0\1". nil: it has none. `tenants` keeps the
-- names of tenants by partition.
local function limit_of(P, row, tenants)
    if not has_bit(string.byte(row, 2), HAS_GATES) then
        return nil
    end
    local high, low = string.byte(row, 10, 11)
    local at = 12 + high * 256 + low
    high, low = string.byte(row, at, at + 1)
    local len = high * 256 + low
    if len == 0 then
        return nil
    end
    local partition = string.sub(row, 3, 6)
    if not tenants[partition] then
        local a, b, c, d = string.byte(partition, 1, 4)
        local name = redis.call('HGET', P .. 'partitions', text(((a * 256 + b) * 256 + c) * 256 + d))
        local first = string.find(name, ' ', 1, true) + 1
        tenants[partition] = string.sub(name, first, string.find(name, '\0\1', first, true) + 1)
    end
    return tenants[partition] .. string.gsub(string.sub(row, at + 2, at + 1 + len), '%z', '\0\255') .. '\0\1'
end

-- Adds the limit of a job that a claim is given, and its sums, once, if it has any.
local function note_limit(P, f, row)
    local limit = limit_of(P, row, f.tenants)
    if limit and not f.limits[limit] then
        local used, sent = sums_of(P, limit)
        local n = #f.sums
        f.limits[limit] = true
        f.sums[n + 1], f.sums[n + 2], f.sums[n + 3] = limit, used, sent
    end
end

-- of each limit that has running jobs or slots in use: its name, how many jobs, how many slots
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
