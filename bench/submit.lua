-- submit.lua - what wrk asks of POST /jobs: bodies of REDRIVE_BATCH jobs (1), with payloads of 100
-- bytes, and its figures as one line of JSON.

local n = tonumber(os.getenv("REDRIVE_BATCH") or "1")
local job = '{"task":"bench","payload":"' .. string.rep("x", 98) .. '"}'

wrk.method = "POST"
wrk.path = "/jobs"
wrk.headers["Content-Type"] = "application/json"
wrk.body = job
if n > 1 then
   wrk.body = "[" .. string.rep(job .. ",", n - 1) .. job .. "]"
end

function done(summary, latency)
   local e = summary.errors
   io.write(string.format('{"requests":%d,"seconds":%.6f,"errors":%d,"p50_ms":%.3f,"p99_ms":%.3f}\n',
      summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
      latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
