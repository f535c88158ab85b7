// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/events/async_evds.h"
#include "dapl/objects/ia.h"
#include "dapl/transport/sink.h"

#include <vector>

namespace udapl::dapl {

class Provider;

// The part of an Ia that knows every type of object, the library and the other open IAs. Every Ia
// is an OpenIa. Owns itself from open() to close().
class OpenIa final : public Ia {
 public:
  // dat_ia_open; *async_evd (in and out) as the specification says. *ia gets the handle for the
  // registry.
  static Status open(Provider& provider, DAT_COUNT async_evd_min_qlen, DAT_EVD_HANDLE* async_evd,
                     DAT_IA_HANDLE* ia);
  // dat_ia_close with checked flags. After SUCCESS the IA and all objects that it owned are
  // destroyed, and none of their code runs any more. Blocks.
  Status close(DAT_CLOSE_FLAGS flags);

  // Use open(). Public for make_object.
  explicit OpenIa(Provider& provider);
  ~OpenIa();

  static OpenIa& of(Ia& ia) noexcept { return static_cast<OpenIa&>(ia); }

  [[nodiscard]] Provider& owner() const noexcept { return owner_; }
  // The async EVD; DAT_EVD_OUT_OF_SCOPE when this open has none.
  [[nodiscard]] DAT_EVD_HANDLE async_evd() const noexcept;
  // vendor_attr.
  [[nodiscard]] std::vector<DAT_NAMED_ATTR>& vendor_attributes() noexcept {
    return vendor_attributes_;
  }
  // provider_specific_attr. Both arrays are valid as long as the IA is open.
  [[nodiscard]] std::vector<DAT_NAMED_ATTR>& named_attributes() noexcept {
    return named_attributes_;
  }

 private:
  struct Sink final : transport::AdapterSink {
    explicit Sink(OpenIa& owner) noexcept : ia(owner) {}
    void on_catastrophic() noexcept override;
    void on_internal_error() noexcept override;
    OpenIa& ia;
  };

  template <class T>
  void destroy_all() noexcept UDAPL_EXCLUDES(lock_);
  // Makes or finds the async EVD; *async_evd as in dat_ia_open.
  [[nodiscard]] Status choose_async_evd(DAT_COUNT qlen, DAT_EVD_HANDLE* async_evd);
  [[nodiscard]] bool has_consumer_objects() noexcept UDAPL_EXCLUDES(lock_);
  // Ends waits with ABORT or a null EVD and calls the agents a last time. Needs no memory.
  void evict_visitors() noexcept UDAPL_EXCLUDES(lock_);

  Provider& owner_;
  Sink sink_{*this};
  std::vector<DAT_NAMED_ATTR> vendor_attributes_;
  std::vector<DAT_NAMED_ATTR> named_attributes_;
  Evd* own_async_evd_ = nullptr;  // the one that open() made
  AsyncEvds::Open async_{*this};
};

}  // namespace udapl::dapl
