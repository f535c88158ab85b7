// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "harness.h"
#include "results.h"

// Tests of two processes. Both run the same test: the one that the user started is the driver; the
// other, its partner, is this program again, started here or by a datconform --listen on another
// host. They talk over a stream socket, the control channel.
namespace conformance {

inline constexpr int kDefaultPort = 7219;  // of the control channel

// Accepts drivers on this TCP port and starts a partner for each, until a signal comes. Returns the
// exit status of the program.
int serve(int port);

// The partner's process: the name of the test that the driver wants, and the channel that Side
// uses. Empty if there is no driver any more.
std::string become_partner(int fd);
// At its end: what failed, for the driver. False if it is not there any more.
bool report_to_driver(const Results& results);

// One side of a test of two processes: an IA with an EP, and the control channel. The sides differ
// in `driver` only; whatever one sends the other must receive.
class Side {
  // The control channel. The driver's end waits for the partner's result, which fails the test if
  // it is a failure.
  class Channel {
   public:
    Channel();
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    bool result_expected = true;
  };
  Channel channel_;  // the last to go, also when an IA cannot be opened

 public:
  Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  // Where the driver starts the partner's process, or connects to the one that does.
  const bool driver;

  // ---- control channel: each ends the test if the other side has gone ----
  void send(std::string_view bytes) const;
  std::string receive() const;
  void sync() const;  // both sides have come here
  template <class T>
  void send_value(const T& value) const {
    send({reinterpret_cast<const char*>(&value), sizeof value});
  }
  template <class T>
  T receive_value() const {
    const std::string bytes = receive();
    BOOST_REQUIRE_EQUAL(bytes.size(), sizeof(T));
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  // True if it is true on both sides.
  [[nodiscard]] bool both(bool here) const;
  // The partner will end without a result: the test kills it.
  void expect_no_result() { channel_.result_expected = false; }

  // ---- connections: the partner has the service point ----
  DAT_RETURN start_connect(DAT_TIMEOUT timeout = kPatience,
                           std::string_view private_data = {}) const;  // driver
  DAT_RETURN start_connect_to(DAT_CONN_QUAL conn_qual, DAT_TIMEOUT timeout = kPatience) const;
  DAT_CR_HANDLE take_cr() const;  // partner
  void connect() const;           // both sides: CONNECTED on return
  // The next event of the EP is its end; then it is reset.
  void expect_end_and_reset() const;

  Ia ia;
  Pz pz;
  Evd cr_evd;
  Psp psp;  // the partner's
  End end;

 private:
  void exchange_addresses();

  sockaddr_storage address_{};  // the driver: the partner's
  DAT_CONN_QUAL conn_qual_ = 0;
};

}  // namespace conformance
