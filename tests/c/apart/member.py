"""A member in Python, which loads the library while it runs."""
import ctypes
import sys

libi = ctypes.CDLL(sys.argv[1])
member = ctypes.c_void_p()
libi.libi_last_error.restype = ctypes.c_char_p
libi.libi_member_rank.argtypes = [ctypes.c_void_p]
libi.libi_member_barrier.argtypes = [ctypes.c_void_p, ctypes.c_int64]
libi.libi_member_drain.argtypes = [ctypes.c_void_p, ctypes.c_int64]
libi.libi_member_free.argtypes = [ctypes.c_void_p]
for call in (
    lambda: libi.libi_member_init(0, ctypes.byref(member)),
    lambda: libi.libi_member_barrier(member, 60_000_000),
    lambda: print(f"rank {libi.libi_member_rank(member)} was here", flush=True) or 0,
    lambda: libi.libi_member_drain(member, 60_000_000),
):
    if call() != 0:
        sys.exit(libi.libi_last_error().decode())
libi.libi_member_free(member)
