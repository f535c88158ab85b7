/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#pragma once

#include <dat/udat.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "random.h"

/// Writes the protocol of a program: a line per step with the call and its arguments, before the
/// call, then one with its result, then lines for what a query or an event contains.
class Protocol {
 public:
  void line(const std::string& text);
  static std::string hex(std::uint64_t value);
};

/// The places for objects of one kind. Empty places hold a null handle.
using Places = std::vector<DAT_HANDLE>;

constexpr std::size_t kBuffer = 65536;

struct Region {
  DAT_VADDR address = 0;
  unsigned length = 0;
  DAT_LMR_CONTEXT lmr_context = 0;
  DAT_RMR_CONTEXT rmr_context = 0;
};

/// One open of the adapter and its objects. A program has two of them that connect to each other.
struct Side {
  char letter = 'a';
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
  Places pz{2}, cno{2}, evd{7}, lmr{3}, rmr{2}, srq{1}, ep{3}, psp{2}, rsp{1}, cr{3};
  std::array<Region, 3> regions{};
  std::array<DAT_EVD_FLAGS, 7> evd_flags{};
  std::array<DAT_CONN_QUAL, 3> qual{};  // of the PSPs and the RSP
  std::array<unsigned char, kBuffer>* memory = nullptr;
  std::size_t next_cr = 0;
};

/// A place with an object in it, or index -1.
struct Pick {
  Side* side = nullptr;
  int index = -1;
};

class World {
 public:
  World(std::string adapter, std::uint64_t seed, unsigned scale, unsigned short qualifiers);

  void run(unsigned steps);  ///< any calls in any order
  void exchange();           ///< connections that are used: exchange.cpp

  // What steps use.
  Random random{0};
  Protocol out;
  std::array<Side, 2> sides;

  Side& any_side() { return sides.at(random.below(2)); }
  Side& other(const Side& side) { return sides.at(side.letter == 'a' ? 1 : 0); }

  /// An occupied place of this kind, by preference; the step does nothing if there is none.
  DAT_HANDLE pick(Side& side, Places Side::*kind, int* index = nullptr);
  /// The handle in a place drawn at random, or null with this chance.
  DAT_HANDLE maybe(Side& side, Places Side::*kind, unsigned null_percent);
  DAT_EVD_HANDLE evd_for(Side& side, unsigned flags, unsigned null_percent);
  int free_place(const Places& places);

  void begin(const std::string& call);  ///< the line before the call
  bool end(DAT_RETURN code);            ///< the line after it; true: success
  void field(const std::string& name, std::uint64_t value);
  void field(const std::string& name, const std::string& value);
  void flush_fields(const std::string& what);

  void named(DAT_HANDLE handle, const Side& side, const char* kind, int index);
  std::string name(DAT_HANDLE handle) const;

  void event(const DAT_EVENT& event, const std::string& evd);
  void drain(Side& side);
  void drain_all();
  void state_of(DAT_EP_HANDLE ep);  ///< right after a call that changes it
  void settle(unsigned milliseconds);
  void after(unsigned milliseconds);  ///< lets asynchronous work happen, and drains if this program
                                      ///< does so

  std::string adapter;
  bool drains = true;
  std::uint64_t cookie = 0;
  unsigned step = 0;
  unsigned short qualifiers;

 private:
  void dequeue(DAT_EVD_HANDLE evd);
  void close();

  std::uint64_t seed_;
  unsigned scale_;
  std::map<DAT_HANDLE, std::string> names_;
  std::string fields_;
};

struct Step {
  const char* name;
  unsigned weight;
  void (*run)(World&);
};

const std::vector<Step>& object_steps();
const std::vector<Step>& event_steps();
const std::vector<Step>& endpoint_steps();
const std::vector<Step>& connection_steps();
const std::vector<Step>& transfer_steps();

// Steps that others use.
void forget(Side& side);  // its IA is closed
/// Private data whose first byte is its size, so that the receiver can check it.
std::vector<unsigned char> private_data(DAT_COUNT size);
/// The size of such data, or "null", or "bad".
std::string private_size(const void* data);
void create_pz(World& world, Side& side);
void create_evd(World& world, Side& side, int index, unsigned flags);
void create_lmr(World& world, Side& side, int index, unsigned privileges);
void create_ep(World& world, Side& side);
void open_side(World& world, Side& side);
void create_psp(World& world, Side& side);
