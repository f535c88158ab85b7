// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "harness.h"
#include "results.h"

// Tests with two processes. Both run the same test: the process that the user started is the
// driver; its partner is the same program, started here or by a datconform --listen on another
// host. They communicate over a stream socket, the control channel.
namespace conformance {

inline constexpr int kDefaultPort = 7219;  // of the control channel

// Accepts drivers on this TCP port and starts a partner for each, until a signal ends it. Returns
// the exit status of the program.
int serve(int port);

// In the partner's process: sets up the channel for Side and returns the name of the test that the
// driver wants, or an empty string if the driver has gone.
std::string become_partner(int fd);
// At the end of the partner: sends its failures to the driver. Returns false if the driver has
// gone.
bool report_to_driver(const Results& results);

// One side of a test with two processes: an IA with an EP, and the control channel. The sides
// differ in `driver` only; each must receive whatever the other one sends.
class Side {
  // The control channel. The driver's destructor waits for the partner's result; a failure there
  // fails the test.
  class Channel {
   public:
    Channel();
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    bool result_expected = true;
  };
  Channel channel_;  // first member: destroyed last, even if the IA cannot be opened

 public:
  Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  // The constructor of the driver's side starts the partner, or connects to the datconform --listen
  // that does.
  const bool driver;

  // ---- control channel: each call ends the test if the other side has gone ----
  void send(std::string_view bytes) const;
  std::string receive() const;
  void sync() const;  // returns once both sides have called it
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
  // Returns true if `here` is true on both sides.
  [[nodiscard]] bool both(bool here) const;
  // The partner will end without a result, because the test kills it.
  void expect_no_result() { channel_.result_expected = false; }

  // ---- connections: the partner has the service point ----
  DAT_RETURN start_connect(DAT_TIMEOUT timeout = kPatience,
                           std::string_view private_data = {}) const;  // driver
  DAT_RETURN start_connect_to(DAT_CONN_QUAL conn_qual, DAT_TIMEOUT timeout = kPatience) const;
  DAT_CR_HANDLE take_cr() const;  // partner
  void connect() const;           // both sides: CONNECTED on return
  // Expects the end of the connection as the next event, and resets the EP.
  void expect_end_and_reset() const;

  Ia ia;
  Pz pz;
  Evd cr_evd;
  Psp psp;  // the partner's
  End end;

 private:
  void exchange_addresses();

  sockaddr_storage address_{};  // on the driver: the partner's address
  DAT_CONN_QUAL conn_qual_ = 0;
};

}  // namespace conformance
