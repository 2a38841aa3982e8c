-- The names under which the functions are called; @ is the name of the library, which has a digest of its text: a
-- program with another text loads a library of its own. FREE functions run when the server's memory is full: those
-- that read, release or repair, and commits without new jobs.

local FREE = {'allow-oom'}

-- While a cluster moves a slot to another node, a key that is not found may be on that node already, and a command
-- for it is refused: a function would end halfway. So each function asks first for a key that does not exist.
local function if_here(callback)
    return function(keys, argv)
        local found = redis.pcall('EXISTS', prefix(keys) .. 'nothing')
        if found == 0 then
            return callback(keys, argv)
        elseif string.find(found.err, 'cluster', 1, true) then
            return redis.error_reply('TRYAGAIN the store is on its way to another node')
        end
        return found
    end
end

redis.register_function{function_name = '@_setup', callback = if_here(setup)}
redis.register_function{function_name = '@_intern', callback = if_here(intern)}
redis.register_function{function_name = '@_commit', callback = if_here(commit)}
redis.register_function{function_name = '@_commit_full', callback = if_here(commit), flags = FREE}
redis.register_function{function_name = '@_hello', callback = if_here(hello), flags = FREE}
redis.register_function{function_name = '@_release', callback = if_here(release), flags = FREE}
redis.register_function{function_name = '@_outcome', callback = if_here(outcome), flags = FREE}
redis.register_function{function_name = '@_set_aside', callback = if_here(set_aside), flags = FREE}
redis.register_function{function_name = '@_sweep', callback = if_here(sweep), flags = FREE}
redis.register_function{function_name = '@_recount', callback = if_here(recount), flags = FREE}
redis.register_function{function_name = '@_elect', callback = if_here(elect), flags = FREE}
redis.register_function{function_name = '@_read', callback = if_here(read), flags = FREE}
