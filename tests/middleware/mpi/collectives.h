/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Collective operations over device.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void barrier(int rank, int size, int tag);
/* Sums up, element by element, what all ranks have. */
void allreduce(uint64_t* values, size_t count, int rank, int size, int tag);
/* Block r of `out` goes to rank r, block r of `in` comes from it. */
void alltoall(const unsigned char* out, unsigned char* in, size_t block, int rank, int size,
              int tag);
/* What the root has goes to all, down a binomial tree. */
void broadcast(unsigned char* data, size_t length, int root, int rank, int size, int tag);
