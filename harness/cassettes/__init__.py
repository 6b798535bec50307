"""Recording, storage, matching, redaction and playback of HTTP exchanges, in vcrpy's file format.

This is the only package that imports vcrpy. It uses vcrpy's serialisation but not its playback, which patches the whole
process, replays each stream as one chunk and matches in quadratic time.
"""
