"""The compiled extension module. What `lib` has is what include/redrive.h declares."""

from typing import Any

ffi: Any
lib: Any
