/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Collective operations over device.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void barrier(int rank, int size, int tag);
/* Sums up the values of all ranks, element by element. */
void allreduce(uint64_t* values, size_t count, int rank, int size, int tag);
/* Sends block r of `out` to rank r, and receives block r of `in` from it. */
void alltoall(const unsigned char* out, unsigned char* in, size_t block, int rank, int size,
              int tag);
/* Sends the root's data to all ranks along a binomial tree. */
void broadcast(unsigned char* data, size_t length, int root, int rank, int size, int tag);
