/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#include "collectives.h"

#include <stdlib.h>
#include <string.h>

#include "device.h"

void barrier(int rank, int size, int tag) {
  for (int distance = 1; distance < size; distance *= 2) {
    char token = 1, other = 0;
    request_t send, recv;
    device_irecv(&recv, &other, 1, (rank - distance + size) % size, tag);
    device_isend(&send, &token, 1, (rank + distance) % size, tag);
    device_wait(&send);
    device_wait(&recv);
    if (other != 1) {
      die("barrier: wrong token %d", other);
    }
  }
}

/* If the number of ranks is no power of two, gathers at rank 0 and distributes from there. */
void allreduce(uint64_t* values, size_t count, int rank, int size, int tag) {
  const size_t bytes = count * sizeof *values;
  uint64_t* theirs = malloc(bytes);
  if ((size & (size - 1)) == 0) {
    for (int bit = 1; bit < size; bit *= 2) {
      request_t send, recv;
      /* The message must not change while it is in flight; a rendezvous would expose that. */
      uint64_t* mine = malloc(bytes);
      memcpy(mine, values, bytes);
      device_irecv(&recv, theirs, bytes, rank ^ bit, tag);
      device_isend(&send, mine, bytes, rank ^ bit, tag);
      device_wait(&recv);
      for (size_t i = 0; i < count; ++i) {
        values[i] += theirs[i];
      }
      device_wait(&send);
      free(mine);
    }
  } else {
    if (rank == 0) {
      for (int peer = 1; peer < size; ++peer) {
        request_t recv;
        device_irecv(&recv, theirs, bytes, peer, tag);
        device_wait(&recv);
        for (size_t i = 0; i < count; ++i) {
          values[i] += theirs[i];
        }
      }
    } else {
      request_t send;
      device_isend(&send, values, bytes, 0, tag);
      device_wait(&send);
    }
    broadcast((unsigned char*)values, bytes, 0, rank, size, tag + 1);
  }
  free(theirs);
}

void alltoall(const unsigned char* out, unsigned char* in, size_t block, int rank, int size,
              int tag) {
  request_t* requests = calloc(2 * (size_t)size, sizeof *requests);
  for (int i = 0; i < size; ++i) {
    const int peer = (rank + i) % size;
    device_irecv(&requests[2 * i], in + (size_t)peer * block, block, peer, tag);
  }
  for (int i = 0; i < size; ++i) {
    const int peer = (rank + i) % size;
    device_isend(&requests[2 * i + 1], out + (size_t)peer * block, block, peer, tag);
  }
  for (int i = 0; i < 2 * size; ++i) {
    device_wait(&requests[i]);
  }
  free(requests);
}

void broadcast(unsigned char* data, size_t length, int root, int rank, int size, int tag) {
  const int me = (rank - root + size) % size;
  int bit = 1;
  request_t request;
  while (bit < size && !(me & bit)) {
    bit *= 2;
  }
  if (me != 0) {
    device_irecv(&request, data, length, (me - bit + root) % size, tag);
    device_wait(&request);
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if (me + bit < size) {
      device_isend(&request, data, length, (me + bit + root) % size, tag);
      device_wait(&request);
    }
  }
}
