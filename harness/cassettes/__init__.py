"""The tape: record, read, write, match, redact and play back HTTP exchanges in vcrpy's format.

The only package that imports vcrpy. Its serialisation and its format are used; its playback is not: it patches the
whole process, plays a stream as one chunk and matches in quadratic time.
"""
