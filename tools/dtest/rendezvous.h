// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How a client learns which adapter its server uses: the server answers on TCP port 15828 with a
// record of 128 bytes, "0000:00000000:00000000:0100007f:soft", whose fourth field is the IPv4
// address as stored in memory (network byte order). In dtestx the client answers with its own
// record.
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
  std::uint32_t ipv4 = 0;  // in network byte order; 0: none
  bool ours = false;       // a mark after the text shows that the peer is a program of this project

  static Record of(const Adapter& adapter);
  /** Formats a record. Original clients return the server's record unchanged, so servers and
   * clients of this project use different marks. */
  [[nodiscard]] std::string text(bool of_server) const;
  static Record parse(std::string_view text, bool of_server);
};

/** The server's side. Not thread-safe. */
class Rendezvous {
 public:
  Rendezvous(Record record, bool wants_answer);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /** Answers clients until ready() is true. Returns the last record that a client sent. */
  Record serve(const std::function<bool()>& ready);

 private:
  void answer();

  Record record_;
  bool wants_answer_;
  Record client_;
  int socket_ = -1;
};

/** Connects to the server and returns its record. If `answer` is set, sends back what it returns
 * for that record. */
Record ask(const std::string& host, const std::function<std::string(const Record&)>& answer = {});

/** The address to connect to: that in the record, else that of the host. */
sockaddr_storage server_address(const Record& record, const std::string& host);

}  // namespace dtest
