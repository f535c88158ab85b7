// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How a client learns what adapter its server uses: the server answers on TCP port 15828 with a
// record of 128 bytes, "0000:00000000:00000000:0100007f:soft", whose fourth field is the IPv4
// address as it lies in memory. dtestx has the client answer with one of its own.
#pragma once

#include "common.h"

#include <cstdint>
#include <functional>
#include <string>

namespace dtest {

struct Record {
  static constexpr std::size_t kSize = 128;
  static constexpr unsigned kPort = 15828;

  std::string provider;
  std::uint32_t ipv4 = 0;  // as it lies in memory; 0: none
  bool ours = false;       // the peer is a program of this project, which says so behind the text

  static Record of(const Adapter& adapter);
  /** The old programs return the server's record as it came, so the two have different words. */
  [[nodiscard]] std::string text(bool of_server) const;
  static Record parse(std::string_view text, bool of_server);
};

/** The server's end. Not thread-safe. */
class Rendezvous {
 public:
  Rendezvous(Record record, bool wants_answer);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /** Answers clients until ready() is true; the record of the last one that sent any. */
  Record serve(const std::function<bool()>& ready);

 private:
  void answer();

  Record record_;
  bool wants_answer_;
  Record client_;
  int socket_ = -1;
};

/** The server's record. The answer, if any, is made of it. */
Record ask(const std::string& host, const std::function<std::string(const Record&)>& answer = {});

/** Where to connect to: the address of the record, else the host. */
sockaddr_storage server_address(const Record& record, const std::string& host);

}  // namespace dtest
