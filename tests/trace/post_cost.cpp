// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The cost of a post in the provider core: posts to a transport that does nothing, counted by
// callgrind (cost.py). Built twice: with the trace points, and with UDAPL_NO_TRACE.
//
// usage: post_cost POSTS [LEVEL]     POSTS: how many of each kind; LEVEL: trace level
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "common/tracing/trace.h"
#include "dapl/table/provider_table.h"

extern "C" {
DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER*, const DAT_PROVIDER_INFO*) {
  return DAT_SUCCESS;
}
DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER*, const DAT_PROVIDER_INFO*) {
  return DAT_SUCCESS;
}
DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE, DAT_IA_HANDLE*) { return DAT_INVALID_HANDLE; }
}

namespace {

using namespace udapl;
using transport::WorkFlags;
using transport::WorkId;

constexpr int kDepth = 64;

class NullCq final : public transport::Cq {
 public:
  static constexpr bool kDrivesProgress = false;
  int poll(transport::Completion* out, int max) noexcept override {
    int n = 0;
    for (; n < max && first_ != last_; ++n) out[n] = done_[first_++ % kDepth];
    return n;
  }
  bool progress() noexcept override { return false; }
  void arm() noexcept override {}
  [[nodiscard]] int size() noexcept override { return static_cast<int>(last_ - first_); }
  Status resize(int) override { return Status(); }
  [[nodiscard]] int depth() const noexcept override { return kDepth; }
  void push(const transport::Completion& completion) noexcept {
    done_[last_++ % kDepth] = completion;
  }

 private:
  transport::Completion done_[kDepth];
  unsigned first_ = 0;
  unsigned last_ = 0;
};

class NullQp final : public transport::Qp {
 public:
  explicit NullQp(const transport::QpInit& init) : init_(init) {}
  DAT_RETURN post_recv(WorkId id, const DAT_LMR_TRIPLET*, DAT_COUNT, WorkFlags) noexcept override {
    return done(init_.recv_cq, id, DAT_DTO_RECEIVE);
  }
  DAT_RETURN post_send(WorkId id, const DAT_LMR_TRIPLET*, DAT_COUNT, WorkFlags) noexcept override {
    return done(init_.request_cq, id, DAT_DTO_SEND);
  }
  DAT_RETURN post_send_invalidate(WorkId id, const DAT_LMR_TRIPLET*, DAT_COUNT, DAT_RMR_CONTEXT,
                                  WorkFlags) noexcept override {
    return done(init_.request_cq, id, DAT_DTO_SEND);
  }
  DAT_RETURN post_rdma_write(WorkId id, const DAT_LMR_TRIPLET*, DAT_COUNT, const DAT_RMR_TRIPLET&,
                             WorkFlags) noexcept override {
    return done(init_.request_cq, id, DAT_DTO_RDMA_WRITE);
  }
  DAT_RETURN post_rdma_read(WorkId id, const DAT_LMR_TRIPLET*, DAT_COUNT, const DAT_RMR_TRIPLET&,
                            WorkFlags) noexcept override {
    return done(init_.request_cq, id, DAT_DTO_RDMA_READ);
  }
  DAT_RETURN post_rdma_read_to_rmr(WorkId, const DAT_RMR_TRIPLET&, const DAT_RMR_TRIPLET&,
                                   WorkFlags) noexcept override {
    return DAT_SUCCESS;
  }
  DAT_RETURN post_bind(WorkId, const transport::BindRequest&, WorkFlags,
                       DAT_RMR_CONTEXT*) noexcept override {
    return DAT_SUCCESS;
  }
  DAT_RETURN post_write_immediate(WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT, const DAT_RMR_TRIPLET&,
                                  std::uint32_t, WorkFlags) noexcept override {
    return DAT_SUCCESS;
  }
  DAT_RETURN post_fetch_add(WorkId, const DAT_LMR_TRIPLET&, const DAT_RMR_TRIPLET&, std::uint64_t,
                            WorkFlags) noexcept override {
    return DAT_SUCCESS;
  }
  DAT_RETURN post_compare_swap(WorkId, const DAT_LMR_TRIPLET&, const DAT_RMR_TRIPLET&,
                               std::uint64_t, std::uint64_t, WorkFlags) noexcept override {
    return DAT_SUCCESS;
  }
  Status modify(const transport::QpInit& init) override {
    init_ = init;
    return Status();
  }
  Status connect(const transport::ConnectRequest&) override { return Status(); }
  void disconnect(transport::DisconnectMode) noexcept override {}
  Status reset() override { return Status(); }
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override { return {}; }
  void set_watermarks(int, int) noexcept override {}
  [[nodiscard]] transport::ReceiveCounts receive_counts() const noexcept override { return {0, 0}; }
  void establish() noexcept { init_.sink->on_established({}); }

 private:
  DAT_RETURN done(transport::Cq* cq, WorkId id, DAT_DTOS operation) noexcept {
    static_cast<NullCq*>(cq)->push({.id = id,
                                    .qp_context = init_.context,
                                    .status = DAT_DTO_SUCCESS,
                                    .operation = operation,
                                    .length = 0,
                                    .rmr_context = 0,
                                    .immediate = 0});
    return DAT_SUCCESS;
  }
  transport::QpInit init_;
};

class NullSrq final : public transport::Srq {
 public:
  DAT_RETURN post_recv(WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT) noexcept override {
    return DAT_SUCCESS;
  }
  Status resize(int) override { return Status(); }
  Status set_low_watermark(int) noexcept override { return Status(); }
  [[nodiscard]] int available() const noexcept override { return 0; }
};

NullQp* the_qp = nullptr;

class NullAdapter final : public transport::Adapter {
 public:
  NullAdapter() {
    attributes_.device_name = "null";
    attributes_.max_eps = attributes_.max_evds = attributes_.max_pzs = 16;
    attributes_.max_dto_per_ep = attributes_.max_evd_qlen = kDepth;
    attributes_.max_segments = attributes_.max_write_segments = attributes_.max_read_segments = 4;
    attributes_.max_rdma_read_in = attributes_.max_rdma_read_out = 4;
    attributes_.max_message_size = attributes_.max_rdma_size = 1U << 30;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    attributes_.address = transport::SocketAddress::from(reinterpret_cast<sockaddr*>(&address));
  }
  [[nodiscard]] const transport::Attributes& attributes() const noexcept override {
    return attributes_;
  }
  Result<std::unique_ptr<transport::Pd>> create_pd() override {
    struct NullPd final : transport::Pd {};
    return std::unique_ptr<transport::Pd>(new NullPd);
  }
  Result<std::unique_ptr<transport::Mr>> register_memory(transport::Pd&,
                                                         const transport::MrInit&) override {
    return failure(DAT_MODEL_NOT_SUPPORTED);
  }
  Result<std::unique_ptr<transport::Window>> create_window(transport::Pd&,
                                                           transport::WindowScope) override {
    return failure(DAT_MODEL_NOT_SUPPORTED);
  }
  Result<std::unique_ptr<transport::Cq>> create_cq(int, transport::CqSink&) override {
    return std::unique_ptr<transport::Cq>(new NullCq);
  }
  Result<std::unique_ptr<transport::Srq>> create_srq(transport::Pd&, int, int,
                                                     transport::SrqSink&) override {
    return failure(DAT_MODEL_NOT_SUPPORTED);
  }
  Result<std::unique_ptr<transport::Qp>> create_qp(const transport::QpInit& init) override {
    the_qp = new NullQp(init);
    return std::unique_ptr<transport::Qp>(the_qp);
  }
  Result<std::unique_ptr<transport::Listener>> listen(const transport::ListenRequest&,
                                                      transport::ListenSink&) override {
    return failure(DAT_MODEL_NOT_SUPPORTED);
  }
  WaitResult block(WaitWord&, std::uint32_t, const Deadline&) noexcept override {
    return WaitResult::kChanged;
  }
  [[nodiscard]] Call idle_poll() noexcept override {
    return {[](void*) noexcept {}, nullptr};
  }

 private:
  transport::Attributes attributes_;
};

void require(DAT_RETURN code, const char* what) {
  if (code == DAT_SUCCESS) return;
  std::fprintf(stderr, "%s: 0x%x\n", what, code);
  std::exit(1);
}

struct Rig {
  const DAT_PROVIDER* table;
  DAT_EP_HANDLE ep;
  DAT_EVD_HANDLE dto_evd;
};

Rig make_rig() {
  static const dapl::ProviderKit kit = dapl::make_provider_kit<NullQp, NullCq, NullSrq>(
      [](std::string_view, transport::AdapterSink&) -> Result<std::unique_ptr<transport::Adapter>> {
        return std::unique_ptr<transport::Adapter>(new NullAdapter);
      });
  DAT_PROVIDER_INFO info{};
  std::strcpy(info.ia_name, "null");
  dapl::register_provider(kit, &info, "");
  const DAT_PROVIDER* const table = &dapl::find_provider("null", false)->table();
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  char name[] = "null";
  require(table->ia_open_func(name, 8, &async_evd, &ia), "ia_open");
  Rig rig{table, DAT_HANDLE_NULL, DAT_HANDLE_NULL};
  DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE connect_evd = DAT_HANDLE_NULL;
  require(table->pz_create_func(ia, &pz), "pz_create");
  require(table->evd_create_func(ia, kDepth, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &rig.dto_evd),
          "evd_create");
  require(table->evd_create_func(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connect_evd),
          "evd_create");
  require(table->ep_create_func(ia, pz, rig.dto_evd, rig.dto_evd, connect_evd, nullptr, &rig.ep),
          "ep_create");
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  require(
      table->ep_connect_func(rig.ep, reinterpret_cast<sockaddr*>(&there), 1, DAT_TIMEOUT_INFINITE,
                             0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
      "ep_connect");
  the_qp->establish();
  return rig;
}

constexpr int kBatch = 8;

// Counted by callgrind: kBatch posts.
[[gnu::noinline]] void counted_send(const Rig& rig, DAT_LMR_TRIPLET* segment) {
  for (int i = 0; i < kBatch; ++i)
    rig.table->ep_post_send_func(rig.ep, 1, segment, {}, DAT_COMPLETION_DEFAULT_FLAG);
}
[[gnu::noinline]] void counted_recv(const Rig& rig, DAT_LMR_TRIPLET* segment) {
  for (int i = 0; i < kBatch; ++i)
    rig.table->ep_post_recv_func(rig.ep, 1, segment, {}, DAT_COMPLETION_DEFAULT_FLAG);
}
[[gnu::noinline]] void counted_write(const Rig& rig, DAT_LMR_TRIPLET* segment,
                                     const DAT_RMR_TRIPLET* remote) {
  for (int i = 0; i < kBatch; ++i)
    rig.table->ep_post_rdma_write_func(rig.ep, 1, segment, {}, remote, DAT_COMPLETION_DEFAULT_FLAG);
}
[[gnu::noinline]] void counted_dequeue(const Rig& rig) {
  DAT_EVENT event;
  for (int i = 0; i < kBatch; ++i)
    require(rig.table->evd_dequeue_func(rig.dto_evd, &event), "evd_dequeue");
}

}  // namespace

int main(int argc, char** argv) {
  const int posts = argc > 1 ? std::atoi(argv[1]) : 0;
  if (posts <= 0 || posts % kBatch != 0) {
    std::fprintf(stderr, "usage: post_cost POSTS [LEVEL], POSTS a multiple of %d\n", kBatch);
    return 2;
  }
  const Rig rig = make_rig();
  trace::set_level(argc > 2 ? std::atoi(argv[2]) : 0);
  char byte = 0;
  DAT_LMR_TRIPLET segment{reinterpret_cast<DAT_VADDR>(&byte), 1, 1};
  const DAT_RMR_TRIPLET remote{reinterpret_cast<DAT_VADDR>(&byte), 1, 1};
  for (int done = 0; done < posts; done += kBatch) {
    counted_send(rig, &segment);
    counted_dequeue(rig);
    counted_recv(rig, &segment);
    counted_dequeue(rig);
    counted_write(rig, &segment, &remote);
    counted_dequeue(rig);
  }
  return 0;
}
