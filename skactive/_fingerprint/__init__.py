"""What an object is made of, as plain JSON: the same in every process, different where results may differ."""

from ._describe import describe, digest, first_difference, hash_data, versions

__all__ = ["describe", "digest", "first_difference", "hash_data", "versions"]
