"""One thread: the batches here are tiny, and threads that wait for each other are slower."""

import torch

torch.set_num_threads(1)
