-- Under these names processes call, with @ for the name of the library, which follows from its text: a
-- program with another text brings a library of its own beside this one. What may run when the server's
-- memory is full is said here: all that reads or lets go, and commits that bring no new jobs.

local FREE = {'allow-oom'}

-- While a cluster moves a slot to another node, a key that is not found may be there already, and a command
-- for it is refused: a function would end in its middle. So each asks first for a key that never is.
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
redis.register_function{function_name = '@_around', callback = if_here(around), flags = FREE}
redis.register_function{function_name = '@_read', callback = if_here(read), flags = FREE}
