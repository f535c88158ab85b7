// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/memory/pz.h"
#include "dapl/objects/object.h"
#include "dapl/transport/mr.h"

#include <memory>

namespace udapl::dapl {

// A local memory region. Immutable, so thread-safe. Uses its Pz. Owned by an Ia.
class Lmr : public ObjectHeader {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_LMR;

  struct Description {
    DAT_MEM_TYPE type;
    DAT_REGION_DESCRIPTION region;
    transport::MrInit init;
  };

  Lmr(const DAT_PROVIDER* table, Ia& owner, Pz& pz, const Description& description,
      std::unique_ptr<transport::Mr> mr) noexcept;

  [[nodiscard]] transport::Mr& mr() const noexcept { return *mr_; }
  [[nodiscard]] Pz& pz() const noexcept { return *pz_.get(); }
  [[nodiscard]] const Description& description() const noexcept { return description_; }
  // Address of the first byte as used in triplets: 0 if zero based.
  [[nodiscard]] DAT_VADDR first_address() const noexcept {
    return description_.init.va_type == DAT_VA_TYPE_ZB ? 0 : description_.init.address;
  }
  [[nodiscard]] DAT_VLEN length() const noexcept { return description_.init.length; }
  [[nodiscard]] DAT_MEM_PRIV_FLAGS privileges() const noexcept {
    return description_.init.privileges;
  }

 private:
  const Use<Pz> pz_;
  const Description description_;
  const std::unique_ptr<transport::Mr> mr_;
};

}  // namespace udapl::dapl
