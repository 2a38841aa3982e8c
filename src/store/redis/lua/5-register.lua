-- Under these names processes call, with @ for the version of the schema: a newer program brings a
-- library of its own beside this one. What may run when the server's memory is full is said here: all
-- that ends, reads or takes back, and commits that bring no new jobs.

local FREE = {'allow-oom'}
redis.register_function{function_name = 'redrive_@_setup', callback = setup}
redis.register_function{function_name = 'redrive_@_intern', callback = intern}
redis.register_function{function_name = 'redrive_@_apply', callback = apply}
redis.register_function{function_name = 'redrive_@_apply_full', callback = apply, flags = FREE}
redis.register_function{function_name = 'redrive_@_commit', callback = commit}
redis.register_function{function_name = 'redrive_@_commit_full', callback = commit, flags = FREE}
redis.register_function{function_name = 'redrive_@_begin', callback = begin, flags = FREE}
redis.register_function{function_name = 'redrive_@_leave', callback = leave, flags = FREE}
redis.register_function{function_name = 'redrive_@_abort', callback = abort, flags = FREE}
redis.register_function{function_name = 'redrive_@_fate', callback = fate, flags = FREE}
redis.register_function{function_name = 'redrive_@_read', callback = read, flags = FREE}
