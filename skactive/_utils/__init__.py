"""What all rooms stand on: types, validation, random numbers, progress, files and checksums."""
