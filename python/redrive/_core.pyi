"""The compiled extension module. What `lib` has is what include/redrive.h declares, and what native.py adds."""

from typing import Any

ffi: Any
lib: Any
