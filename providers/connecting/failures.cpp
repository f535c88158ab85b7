// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/connecting/failures.h"

#include <cerrno>

namespace udapl {

Status listen_failure(int error, bool any_port) noexcept {
  switch (error) {
    case EADDRINUSE:
    case EBUSY:  // from rdma_cm
      return failure(any_port ? DAT_CONN_QUAL_UNAVAILABLE : DAT_CONN_QUAL_IN_USE);
    case EACCES:
      return failure(DAT_CONN_QUAL_UNAVAILABLE);  // a privileged port
    case EADDRNOTAVAIL:  // this machine no longer has the adapter's address
    case ENODEV:         // nor the interface (of a link-local address, or with rdma_cm)
    case EAFNOSUPPORT:
    case EINVAL:
      return failure(DAT_INVALID_ADDRESS);
    default:
      return failure(DAT_INSUFFICIENT_RESOURCES);
  }
}

Status connect_failure(int error) noexcept {
  switch (error) {
    case EAFNOSUPPORT:
      return failure(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
    case ENOMEM:
      return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case EAGAIN:
    case EADDRINUSE:  // no port is left
      return failure(DAT_INSUFFICIENT_RESOURCES);
    default:
      return Status();
  }
}

}  // namespace udapl
