/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#include "world.h"

#include <netinet/in.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>

void Protocol::line(const std::string& text) {
  const std::string whole = text + "\n";
  if (write(STDOUT_FILENO, whole.data(), whole.size()) < 0) {
    _exit(3);
  }
}

std::string Protocol::hex(std::uint64_t value) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%llx", static_cast<unsigned long long>(value));
  return text.data();
}

World::World(std::string name, std::uint64_t seed, unsigned scale, unsigned short first)
    : adapter(std::move(name)), qualifiers(first), seed_(seed), scale_(scale) {
  static std::array<std::array<unsigned char, kBuffer>, 2> memory;
  for (std::size_t i = 0; i < 2; i++) {
    sides.at(i).letter = i == 0 ? 'a' : 'b';
    sides.at(i).memory = &memory.at(i);
    memory.at(i).fill(static_cast<unsigned char>('A' + i));
    sides.at(i).qual = {static_cast<DAT_CONN_QUAL>(first + 10 * i),
                        static_cast<DAT_CONN_QUAL>(first + 10 * i + 1),
                        static_cast<DAT_CONN_QUAL>(first + 10 * i + 2)};
  }
}

DAT_HANDLE World::pick(Side& side, Places Side::*kind, int* index) {
  Places& places = side.*kind;
  const auto first = random.below(static_cast<unsigned>(places.size()));
  for (std::size_t i = 0; i < places.size(); i++) {
    const std::size_t place = (first + i) % places.size();
    if (places.at(place) != DAT_HANDLE_NULL) {
      if (index != nullptr) {
        *index = static_cast<int>(place);
      }
      return places.at(place);
    }
  }
  return DAT_HANDLE_NULL;
}

DAT_HANDLE World::maybe(Side& side, Places Side::*kind, unsigned null_percent) {
  return random.percent(null_percent) ? DAT_HANDLE_NULL : pick(side, kind);
}

DAT_EVD_HANDLE World::evd_for(Side& side, unsigned flags, unsigned null_percent) {
  const bool null = random.percent(null_percent);
  const bool wrong = random.percent(3);
  const unsigned first = random.below(static_cast<unsigned>(side.evd.size()));
  for (std::size_t i = 0; i < side.evd.size() && !null; i++) {
    const std::size_t place = (first + i) % side.evd.size();
    if (side.evd.at(place) != DAT_HANDLE_NULL &&
        (wrong || (static_cast<unsigned>(side.evd_flags.at(place)) & flags) == flags)) {
      return side.evd.at(place);
    }
  }
  return DAT_HANDLE_NULL;
}

int World::free_place(const Places& places) {
  for (std::size_t i = 0; i < places.size(); i++) {
    if (places.at(i) == DAT_HANDLE_NULL) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void World::begin(const std::string& call) {
  out.line("step " + std::to_string(step) + " " + call);
}

bool World::end(DAT_RETURN code) {
  out.line("= " + Protocol::hex(code));
  return code == DAT_SUCCESS;
}

void World::field(const std::string& name, std::uint64_t value) {
  field(name, Protocol::hex(value));
}

void World::field(const std::string& name, const std::string& value) {
  fields_ += " " + name + "=" + value;
}

void World::flush_fields(const std::string& what) {
  out.line(what + fields_);
  fields_.clear();
}

void World::named(DAT_HANDLE handle, const Side& side, const char* kind, int index) {
  names_[handle] = std::string(1, side.letter) + "." + kind + std::to_string(index);
}

std::string World::name(DAT_HANDLE handle) const {
  if (handle == DAT_HANDLE_NULL) {
    return "null";
  }
  const auto found = names_.find(handle);
  return found == names_.end() ? "other" : found->second;
}

std::vector<unsigned char> private_data(DAT_COUNT size) {
  std::vector<unsigned char> data(static_cast<std::size_t>(size) + 1);
  for (std::size_t i = 0; i < data.size(); i++) {
    data[i] = static_cast<unsigned char>(static_cast<std::size_t>(size) + i);
  }
  return data;
}

std::string private_size(const void* data) {
  if (data == nullptr) {
    return "null";
  }
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (unsigned i = 1; i < bytes[0]; i++) {
    if (bytes[i] != static_cast<unsigned char>(bytes[0] + i)) {
      return "bad";
    }
  }
  return std::to_string(bytes[0]);
}

void World::event(const DAT_EVENT& event, const std::string& evd) {
  field("number", event.event_number);
  field("evd", name(event.evd_handle));
  switch (event.event_number) {
    case DAT_DTO_COMPLETION_EVENT: {
      const auto& data = event.event_data.dto_completion_event_data;
      field("ep", name(data.ep_handle));
      field("cookie", data.user_cookie.as_64);
      field("status", data.status);
      field("length", data.transfered_length);
      break;
    }
    case DAT_RMR_BIND_COMPLETION_EVENT: {
      const auto& data = event.event_data.rmr_completion_event_data;
      field("rmr", name(data.rmr_handle));
      field("cookie", data.user_cookie.as_64);
      field("status", data.status);
      break;
    }
    case DAT_CONNECTION_REQUEST_EVENT: {
      const auto& data = event.event_data.cr_arrival_event_data;
      Side& side = sides.at(evd[0] == 'a' ? 0 : 1);
      const auto place = side.next_cr++ % side.cr.size();
      side.cr.at(place) = data.cr_handle;
      named(data.cr_handle, side, "cr", static_cast<int>(place));
      field("cr", name(data.cr_handle));
      field("sp", name(data.sp_handle.psp_handle));
      field("qual", data.conn_qual >= qualifiers ? data.conn_qual - qualifiers : data.conn_qual);
      field("family",
            data.local_ia_address_ptr == nullptr ? 0xffU : data.local_ia_address_ptr->sa_family);
      break;
    }
    case DAT_SOFTWARE_EVENT:
      field("pointer",
            reinterpret_cast<std::uintptr_t>(event.event_data.software_event_data.pointer));
      break;
    case DAT_ASYNC_ERROR_EVD_OVERFLOW:
    case DAT_ASYNC_ERROR_EP_BROKEN:
    case DAT_ASYNC_ERROR_IA_CATASTROPHIC:
    case DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR:
      field("handle", name(event.event_data.asynch_error_event_data.dat_handle));
      field("reason", static_cast<std::uint64_t>(event.event_data.asynch_error_event_data.reason));
      break;
    default: {
      const auto& data = event.event_data.connect_event_data;
      field("ep", name(data.ep_handle));
      field("private", private_size(data.private_data_size > 0 ? data.private_data : nullptr));
      break;
    }
  }
  flush_fields("event " + evd);
}

void World::dequeue(DAT_EVD_HANDLE evd) {
  DAT_EVENT event;
  for (int i = 0; i < 200; i++) {
    std::memset(&event, 0, sizeof event);
    const DAT_RETURN code = dat_evd_dequeue(evd, &event);
    if (code != DAT_SUCCESS) {
      if (DAT_GET_TYPE(code) != DAT_QUEUE_EMPTY) {
        out.line("dequeue " + name(evd) + " " + Protocol::hex(code));
      }
      return;
    }
    this->event(event, name(evd));
  }
}

void World::drain(Side& side) {
  if (side.ia == DAT_HANDLE_NULL) {
    return;
  }
  for (DAT_EVD_HANDLE evd : side.evd) {
    if (evd != DAT_HANDLE_NULL) {
      dequeue(evd);
    }
  }
  if (side.async != DAT_HANDLE_NULL) {
    dequeue(side.async);
  }
}

void World::drain_all() {
  for (Side& side : sides) {
    drain(side);
  }
}

void World::state_of(DAT_EP_HANDLE ep) {
  DAT_EP_STATE state{};
  if (ep != DAT_HANDLE_NULL && dat_ep_get_status(ep, &state, nullptr, nullptr) == DAT_SUCCESS) {
    field("at_once", state);
    flush_fields(". state");
  }
}

void World::settle(unsigned milliseconds) { usleep(milliseconds * 1000 * scale_); }

void World::after(unsigned milliseconds) {
  settle(milliseconds);
  if (drains) {
    drain_all();
  }
}

void World::run(unsigned steps) {
  std::vector<Step> table;
  for (const auto* part : {&object_steps(), &event_steps(), &endpoint_steps(), &connection_steps(),
                           &transfer_steps()}) {
    table.insert(table.end(), part->begin(), part->end());
  }
  unsigned sum = 0;
  for (const Step& entry : table) {
    sum += entry.weight;
  }
  random = Random(seed_);
  drains = random.percent(75);
  for (Side& side : sides) {
    open_side(*this, side);
  }
  for (step = 1; step <= steps; step++) {
    random = Random(seed_ * 1000 + step);
    unsigned draw = random.below(sum);
    for (const Step& entry : table) {
      if (draw < entry.weight) {
        entry.run(*this);
        break;
      }
      draw -= entry.weight;
    }
  }
  settle(50);
  drain_all();
  close();
}

void World::close() {
  for (Side& side : sides) {
    if (side.ia != DAT_HANDLE_NULL) {
      begin(std::string("ia_close abrupt ") + side.letter);
      end(dat_ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
      side.ia = DAT_HANDLE_NULL;
      settle(30);
      drain_all();
    }
  }
}
