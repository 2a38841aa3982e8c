-- Under these names processes call, with @ for the name of the library, which follows from its text: a
-- program with another text brings a library of its own beside this one. What may run when the server's
-- memory is full is said here: all that ends, reads or takes back, and commits that bring no new jobs.

local FREE = {'allow-oom'}
redis.register_function{function_name = '@_setup', callback = setup}
redis.register_function{function_name = '@_intern', callback = intern}
redis.register_function{function_name = '@_apply', callback = apply}
redis.register_function{function_name = '@_apply_full', callback = apply, flags = FREE}
redis.register_function{function_name = '@_commit', callback = commit}
redis.register_function{function_name = '@_commit_full', callback = commit, flags = FREE}
redis.register_function{function_name = '@_begin', callback = begin, flags = FREE}
redis.register_function{function_name = '@_leave', callback = leave, flags = FREE}
redis.register_function{function_name = '@_abort', callback = abort, flags = FREE}
redis.register_function{function_name = '@_fate', callback = fate, flags = FREE}
redis.register_function{function_name = '@_read', callback = read, flags = FREE}
