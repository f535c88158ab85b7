// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "local_pair.h"

#include <dat/udat.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "attributes.h"
#include "child.h"

namespace datinfo {

namespace {

constexpr std::uint32_t kBytes = 8;    // of an RDMA Read
constexpr int kTraceLevel = 3;         // the provider traces the path of each connection
constexpr DAT_TIMEOUT kWait = 50'000;  // us, after which a wait looks whether the other has failed
constexpr DAT_TIMEOUT kSetup = 5'000'000;  // us

// Shared by the two processes.
struct Meeting {
  struct Side {
    std::atomic<DAT_VADDR> address;
    std::atomic<DAT_RMR_CONTEXT> context;
    std::atomic<bool> there;  // its memory can be read
    std::atomic<bool> done;
  };
  std::atomic<DAT_CONN_QUAL> conn_qual;
  std::array<Side, 2> sides;
  std::atomic<bool> over;  // one side has given up
};

// One of the two processes. Throws Failure.
class Side {
 public:
  struct Failure {
    std::string why;
  };

  Side(const Entry& entry, Meeting& meeting, bool listens)
      : entry_(entry), meeting_(meeting), listens_(listens) {}

  // Returns the value of the provider's attribute SOFT_DIRECT; nothing if it is not the software
  // RNIC.
  std::optional<std::string> run() {
    open();
    const std::optional<std::string> direct = attribute("SOFT_DIRECT");
    if (!direct) return std::nullopt;
    create();
    if (listens_)
      accept();
    else
      connect();
    read_other();
    own().done = true;
    await(other().done);  // neither leaves while the other may still read
    return direct;
  }

 private:
  Meeting::Side& own() { return meeting_.sides[listens_ ? 0 : 1]; }
  Meeting::Side& other() { return meeting_.sides[listens_ ? 1 : 0]; }

  void check(DAT_RETURN status, const char* call) {
    if (status == DAT_SUCCESS) return;
    const char* cause = "";
    dat_last_cause(status, &cause);
    fail(std::string(call) + ": " + (*cause != '\0' ? cause : name_of(static_cast<int>(status))));
  }
  [[noreturn]] static void fail(std::string why) { throw Failure{std::move(why)}; }

  template <class Value>
  void await(const std::atomic<Value>& value) {
    while (value.load() == Value{}) {
      if (meeting_.over) fail("");
      ::usleep(500);
    }
  }

  DAT_EVENT next_event(DAT_EVD_HANDLE evd) {
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    DAT_RETURN status = DAT_SUCCESS;
    do {
      if (meeting_.over) fail("");
      status = dat_evd_wait(evd, kWait, 1, &event, &more);
    } while (DAT_GET_TYPE(status) == DAT_TIMEOUT_EXPIRED);
    check(status, "dat_evd_wait");
    return event;
  }

  void open() {
    std::string name = entry_.ia_name;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    const DAT_RETURN status = dat_ia_openv(name.data(), 8, &async_evd, &ia_, entry_.major,
                                           entry_.minor, entry_.thread_safe ? DAT_TRUE : DAT_FALSE);
    if (status != DAT_SUCCESS)
      fail("it does not open: " + name_of(static_cast<int>(status)) + "; try: datinfo list " +
           entry_.ia_name);
    check(attributes_of(ia_, attributes_), "dat_ia_query");
    check(dat_ia_query(ia_, nullptr, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr_, 0, nullptr),
          "dat_ia_query");
  }

  [[nodiscard]] std::optional<std::string> attribute(std::string_view name) const {
    for (const Attribute& one : attributes_)
      if (one.name == name) return one.value;
    return std::nullopt;
  }

  DAT_EVD_HANDLE evd(DAT_EVD_FLAGS flags) {
    DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
    check(dat_evd_create(ia_, 8, DAT_HANDLE_NULL, flags, &made), "dat_evd_create");
    return made;
  }

  void create() {
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    check(dat_pz_create(ia_, &pz), "dat_pz_create");
    connections_ = evd(DAT_EVD_CONNECTION_FLAG);
    completions_ = evd(DAT_EVD_DTO_FLAG);
    check(dat_ep_create(ia_, pz, completions_, completions_, connections_, nullptr, &ep_),
          "dat_ep_create");
    DAT_REGION_DESCRIPTION region{};
    region.for_va = bytes_.data();
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VLEN length = 0;
    DAT_VADDR address = 0;
    check(
        dat_lmr_create(ia_, DAT_MEM_TYPE_VIRTUAL, region, bytes_.size(), pz, DAT_MEM_PRIV_ALL_FLAG,
                       DAT_VA_TYPE_VA, &lmr, &context_, &rmr_context, &length, &address),
        "dat_lmr_create");
    own().address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    own().context = rmr_context;
    own().there = true;
  }

  void accept() {
    const DAT_EVD_HANDLE requests = evd(DAT_EVD_CR_FLAG);
    DAT_CONN_QUAL conn_qual = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    check(dat_psp_create_any(ia_, &conn_qual, requests, DAT_PSP_CONSUMER_FLAG, &psp),
          "dat_psp_create_any");
    meeting_.conn_qual = conn_qual;
    const DAT_EVENT request = next_event(requests);
    check(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, ep_, 0, nullptr),
          "dat_cr_accept");
    await_connection();
  }

  void connect() {
    await(meeting_.conn_qual);
    check(dat_ep_connect(ep_, attr_.ia_address_ptr, meeting_.conn_qual, kSetup, 0, nullptr,
                         DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
          "dat_ep_connect");
    await_connection();
  }

  void await_connection() {
    const DAT_EVENT event = next_event(connections_);
    if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
      fail("the processes cannot connect with each other");
  }

  void read_other() {
    await(other().there);
    DAT_LMR_TRIPLET sink{};
    sink.virtual_address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    sink.segment_length = kBytes;
    sink.lmr_context = context_;
    DAT_RMR_TRIPLET source{};
    source.virtual_address = other().address;
    source.segment_length = kBytes;
    source.rmr_context = other().context;
    check(dat_ep_post_rdma_read(ep_, 1, &sink, DAT_DTO_COOKIE{}, &source,
                                DAT_COMPLETION_DEFAULT_FLAG),
          "dat_ep_post_rdma_read");
    const DAT_EVENT event = next_event(completions_);
    if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS)
      fail("an RDMA Read has failed");
  }

  const Entry& entry_;
  Meeting& meeting_;
  const bool listens_;
  Attributes attributes_;
  DAT_IA_ATTR attr_{};
  DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE connections_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE completions_ = DAT_HANDLE_NULL;
  DAT_EP_HANDLE ep_ = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT context_ = 0;
  std::array<std::byte, kBytes> bytes_{};
};

// "connected" and the attribute SOFT_DIRECT, "no choice", or "failed" and why.
std::string answer_of(const Entry& entry, Meeting& meeting, bool listens) {
  std::string answer;
  try {
    const std::optional<std::string> direct = Side(entry, meeting, listens).run();
    put(answer, direct ? "connected" : "no choice");
    put(answer, direct.value_or(""));
  } catch (const Side::Failure& failure) {
    put(answer, "failed");
    put(answer, failure.why);
    meeting.over = true;
  }
  return answer;
}

// What one side answered and traced.
struct Report {
  std::string word;
  std::string text;
  bool shared = false;
  bool reaches = false;
  std::string not_shared;
  std::string not_reached;

  [[nodiscard]] std::string failure() const { return word == "failed" ? text : std::string(); }
};

// The part of a record behind `mark` and then behind `separator`; nothing if it has no such mark.
std::optional<std::string> part(std::string_view record, std::string_view mark,
                                std::string_view separator) {
  const std::size_t at = record.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t text = record.find(separator, at + mark.size());
  return text == std::string_view::npos ? std::string()
                                        : std::string(record.substr(text + separator.size()));
}

void take_record(std::string_view record, Report& report) {
  for (const char* mark : {": no shared memory with ", ": no shared memory for peers of this host"})
    if (auto why = part(record, mark, ": ")) return void(report.not_shared = *why);
  if (part(record, ": shared memory with ", ""))
    report.shared = true;
  else if (part(record, ": RDMA Reads and Writes reach process ", ""))
    report.reaches = true;
  else if (auto why = part(record, ": RDMA Reads and Writes need ", "to take part: "))
    report.not_reached = *why;
}

Report report_of(Child& child) {
  const Child::End end = child.end();
  Report report;
  std::string_view answer = end.answer;
  if (!take(answer, report.word) || !take(answer, report.text)) {
    report.word = "failed";
    report.text = end.problem;
  }
  std::string_view rest = end.output;
  while (!rest.empty()) {
    const std::size_t line = std::min(rest.find('\n'), rest.size() - 1) + 1;
    take_record(rest.substr(0, line - (rest[line - 1] == '\n' ? 1 : 0)), report);
    rest.remove_prefix(line);
  }
  return report;
}

std::string both(const std::string& one, const std::string& other) {
  if (one.empty() || one == other) return other;
  return other.empty() ? one : one + "; " + other;
}

// Why there is no shared memory. A side may know only that the other has not done its part.
std::string why_not_shared(const Report& listener, const Report& client) {
  constexpr std::array<std::string_view, 3> kEchoes{
      "it has offered none", "it has not taken the offer",
      "no listener there accepts offers of shared memory"};
  const auto knows = [&](const std::string& why) {
    return !why.empty() && std::find(kEchoes.begin(), kEchoes.end(), why) == kEchoes.end();
  };
  if (knows(client.not_shared)) return client.not_shared;
  return knows(listener.not_shared) ? listener.not_shared
                                    : both(client.not_shared, listener.not_shared);
}

LocalPath path_of(const Report& listener, const Report& client) {
  if (client.word == "no choice" || listener.word == "no choice")
    return {LocalPath::Kind::kNoChoice, ""};
  const std::string not_shared = why_not_shared(listener, client);
  if (client.word != "connected" || listener.word != "connected")
    return {LocalPath::Kind::kNone, both(both(client.failure(), listener.failure()), not_shared)};
  if (!client.shared) return {LocalPath::Kind::kTcp, not_shared};
  if (client.text == "off") return {LocalPath::Kind::kRings, "direct=off is set"};
  return {client.reaches || listener.reaches ? LocalPath::Kind::kShared : LocalPath::Kind::kRings,
          both(client.not_reached, listener.not_reached)};
}

}  // namespace

LocalPath try_local_pair(const Entry& entry, std::chrono::milliseconds limit) {
  void* const shared =
      ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {LocalPath::Kind::kNone, "no memory is left"};
  Meeting& meeting = *new (shared) Meeting{};
  std::vector<std::unique_ptr<Child>> sides;
  for (const bool listens : {true, false})
    sides.push_back(std::make_unique<Child>(
        [&, listens] { return answer_of(entry, meeting, listens); }, kTraceLevel, limit));
  while (!sides[0]->done() || !sides[1]->done()) {
    serve(sides);
    // A side that has succeeded ends only when the other has, too.
    if (sides[0]->done() || sides[1]->done()) meeting.over = true;
  }
  const Report listener = report_of(*sides[0]);
  const Report client = report_of(*sides[1]);
  ::munmap(shared, sizeof(Meeting));
  return path_of(listener, client);
}

}  // namespace datinfo
