"""fate.py - how the work of a job ends in the rigs: drawn from job and attempt alone, so that every run of them agrees."""
import hashlib


def fate(job_id, attempt):
    return int(hashlib.sha256(f"{job_id}/{attempt}".encode()).hexdigest()[:8], 16) % 100


def status(number):
    """How work of this fate ends."""
    if 20 <= number < 40:
        return "TRANSIENT_FAIL"
    return "PERMANENT_FAIL" if 40 <= number < 45 else "SUCCESS"
