// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// tracelevel - traces only one part of the program, in C++ with <dat/dat.hpp>.
//
//   tracelevel [NAME]     an entry of dat.conf (soft)
//
// tracelevel.c is the same in C, with the functions among the attributes of an adapter. This
// program calls functions of libdat2, which find those: a scope object raises the levels and
// restores them.
#include <dat/dat_trclvl.h>
#include <dat/dat.hpp>

#include <iostream>
#include <string>
#include <string_view>

namespace {

DAT_COUNT level(const dat::Adapter& adapter, DAT_COUNT component) {
  DAT_COUNT level = 0;
  dat::check(dat_trclvl_query(adapter.handle(), component, &level), "dat_trclvl_query");
  return level;
}

void set_level(const dat::Adapter& adapter, DAT_COUNT component, DAT_COUNT level) {
  dat::check(dat_trclvl_modify(adapter.handle(), component, level), "dat_trclvl_modify");
}

// Sets the trace levels of the provider and of libdat2 for the duration of a scope.
class TraceLevels {
 public:
  TraceLevels(const dat::Adapter& adapter, DAT_COUNT now)
      : adapter_(adapter),
        dapl_(level(adapter, DAT_TRCLVL_DAPL)),
        dat_(level(adapter, DAT_TRCLVL_DAT)) {
    set_level(adapter, DAT_TRCLVL_DAPL, now);
    set_level(adapter, DAT_TRCLVL_DAT, now);
  }
  ~TraceLevels() {
    dat_trclvl_modify(adapter_.handle(), DAT_TRCLVL_DAPL, dapl_);
    dat_trclvl_modify(adapter_.handle(), DAT_TRCLVL_DAT, dat_);
  }
  TraceLevels(const TraceLevels&) = delete;
  TraceLevels& operator=(const TraceLevels&) = delete;

 private:
  const dat::Adapter& adapter_;
  const DAT_COUNT dapl_;
  const DAT_COUNT dat_;
};

// The code to be traced: creates an event queue and frees it.
void make_something(const dat::Adapter& adapter) {
  std::cout << "DAPL level " << level(adapter, DAT_TRCLVL_DAPL) << ", DAT level "
            << level(adapter, DAT_TRCLVL_DAT) << std::endl;
  const dat::Queue queue(adapter, DAT_EVD_SOFTWARE_FLAG, 8);
}

int show(const std::string& name) {
  const dat::Adapter adapter(name);
  const TraceLevels silence(adapter, TRC_LVL_OFF);
  make_something(adapter);
  {
    const TraceLevels everything(adapter, TRC_LVL_DETAIL);
    make_something(adapter);
  }
  make_something(adapter);
  return 0;
}

int usage(std::ostream& out, int status) {
  out << "usage: tracelevel [NAME]\nNAME is an entry of dat.conf (soft).\n";
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "soft";
  if (word == "--help") return usage(std::cout, 0);
  if (word.starts_with("--")) {
    std::cerr << "tracelevel: unrecognized option '" << word << "'\n";
    return usage(std::cerr, 2);
  }
  if (argc > 2) return usage(std::cerr, 2);
  try {
    return show(std::string(word));
  } catch (const std::exception& error) {
    std::cerr << "tracelevel: " << error.what() << '\n';
    return 1;
  }
}
