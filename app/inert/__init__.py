"""Reading pickles and PyTorch files as data: nothing they name is imported, looked up or called.

A machine of our own goes through the opcodes and builds inert values; the few names that data files need are
on a list, everything else ends the reading. It runs in a process of its own with limits on memory and time
(`python -m app.inert FILE MEMORY SECONDS`), which writes rows to its standard output. Needs numpy alone.
"""
