// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"

#include <boost/test/tree/traverse.hpp>
#include <boost/test/tree/visitor.hpp>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace conformance {

namespace {

// The tests of the loader need special provider libraries.
#define LOADER(test) "tests/loader/" test

constexpr Assertion kChecklist[] = {
    // clang-format off
    // 10.1 Registry
    {1, "10.1", "reg_list_no_ia_needed", "list_providers works before any open", LOADER("list.cpp:reg_list_no_ia_needed")},
    {2, "10.1", "reg_list_zero_max", "max 0 -> INVALID_PARAMETER and total written", LOADER("list.cpp:reg_list_zero_max")},
    {3, "10.1", "reg_list_null_count", "NULL entries_returned -> INVALID_PARAMETER", LOADER("list.cpp:reg_list_null_count")},
    {4, "10.1", "reg_list_null_list", "max > 0 with NULL list -> INVALID_PARAMETER", LOADER("list.cpp:reg_list_null_list")},
    {5, "10.1", "reg_list_exact_fit", "max = total -> SUCCESS, all entries copied", LOADER("list.cpp:reg_list_exact_fit")},
    {6, "10.1", "reg_list_small_max", "max < total -> documented policy (truncated success or INVALID_PARAMETER)", LOADER("list.cpp:reg_list_small_max")},
    {7, "10.1", "reg_list_contents", "name, major, minor, thread safety equal the file's entry", LOADER("list.cpp:reg_list_contents")},
    {8, "10.1", "reg_list_only_default_u", "nondefault and k entries do not appear", LOADER("list.cpp:reg_list_only_default_u")},
    {9, "10.1", "reg_conf_override", "DAT_OVERRIDE file is used instead of the system file", LOADER("list.cpp:reg_conf_override")},
    {10, "10.1", "reg_conf_override_missing", "unreadable override -> empty registry, no fallback", LOADER("list.cpp:reg_conf_override_missing")},
    {11, "10.1", "reg_conf_comments_blank", "comments, blank and whitespace-only lines ignored", LOADER("list.cpp:reg_conf_comments_blank")},
    {12, "10.1", "reg_conf_quoted_fields", "quoted fields with spaces and \\\" and \\\\ escapes decoded", LOADER("open.cpp:reg_conf_quoted_fields")},
    {13, "10.1", "reg_conf_bad_line_skipped", "malformed line ignored, later entries still loaded", LOADER("list.cpp:reg_conf_bad_line_skipped")},
    {14, "10.1", "reg_conf_long_name", "256-byte name rejected, 255-byte accepted", LOADER("list.cpp:reg_conf_long_name")},
    {15, "10.1", "reg_conf_bad_version", "version without u/k or digits rejected", LOADER("list.cpp:reg_conf_bad_version")},
    {16, "10.1", "reg_conf_duplicate_fallback", "second entry of same key used when first library fails to load", LOADER("open.cpp:reg_conf_duplicate_fallback")},
    {17, "10.1", "reg_open_unknown_name", "unknown name -> PROVIDER_NOT_FOUND", LOADER("open.cpp:reg_open_unknown_name")},
    {18, "10.1", "reg_open_major_mismatch", "other major -> PROVIDER_NOT_FOUND", LOADER("open.cpp:reg_open_major_mismatch")},
    {19, "10.1", "reg_open_minor_too_high", "requested minor above available -> PROVIDER_NOT_FOUND", LOADER("open.cpp:reg_open_minor_too_high")},
    {20, "10.1", "reg_open_minor_lower_ok", "requested minor below available -> SUCCESS", LOADER("open.cpp:reg_open_minor_lower_ok")},
    {21, "10.1", "reg_open_threadsafe_mismatch", "differing thread safety -> PROVIDER_NOT_FOUND", LOADER("open.cpp:reg_open_threadsafe_mismatch")},
    {22, "10.1", "reg_open_null_name", "NULL name -> INVALID_PARAMETER", LOADER("open.cpp:reg_open_null_name")},
    {23, "10.1", "reg_open_long_name", "256-byte name -> INVALID_PARAMETER", LOADER("open.cpp:reg_open_long_name")},
    {24, "10.1", "reg_open_library_missing", "nonexistent library -> PROVIDER_NOT_FOUND", LOADER("open.cpp:reg_open_library_missing")},
    {25, "10.1", "reg_open_init_registers_nothing", "init that adds nothing -> PROVIDER_NOT_FOUND", LOADER("open.cpp:reg_open_init_registers_nothing")},
    {26, "10.1", "reg_init_args", "init gets the entry's info and ia_params verbatim", LOADER("life.cpp:reg_init_args")},
    {27, "10.1", "reg_init_once", "second open of same IA does not call init again", LOADER("life.cpp:reg_init_once")},
    {28, "10.1", "reg_init_once_threads", "concurrent first opens call init once", LOADER("life.cpp:reg_init_once_threads")},
    {29, "10.1", "reg_fini_after_last_close", "fini called once after the last close", LOADER("life.cpp:reg_fini_after_last_close")},
    {30, "10.1", "reg_reopen_after_fini", "open after full close calls init again and works", LOADER("life.cpp:reg_reopen_after_fini")},
    {31, "10.1", "reg_open_failure_releases", "failed provider open leaves no reference (fini reachable)", LOADER("life.cpp:reg_open_failure_releases")},
    {32, "10.1", "reg_add_duplicate", "add of a registered name -> PROVIDER_ALREADY_REGISTERED", LOADER("life.cpp:reg_add_duplicate")},
    {33, "10.1", "reg_add_null", "add with NULL provider or info -> INVALID_PARAMETER", LOADER("life.cpp:reg_add_null")},
    {34, "10.1", "reg_remove_in_use", "remove with open IA -> PROVIDER_IN_USE", LOADER("life.cpp:reg_remove_in_use")},
    {35, "10.1", "reg_dynamic_only", "provider added by the application opens without a file entry", LOADER("life.cpp:reg_dynamic_only")},
    {36, "10.1", "strerror_all_types", "every defined type yields a non-empty major string", LOADER("results.cpp:strerror_all_types_and_subtypes")},
    {37, "10.1", "strerror_all_subtypes", "every defined subtype yields a non-empty minor string", LOADER("results.cpp:strerror_all_types_and_subtypes")},
    {38, "10.1", "strerror_success", "DAT_SUCCESS accepted", LOADER("results.cpp:strerror_names_success")},
    {39, "10.1", "strerror_undefined", "undefined type or subtype -> INVALID_PARAMETER", LOADER("results.cpp:strerror_refuses_undefined_codes")},
    {40, "10.1", "retcode_class_bits", "every failure has the error class bit set", LOADER("results.cpp:retcode_class_bits")},
    // 10.2 Interface adapter
    {41, "10.2", "ia_open_creates_async", "NULL async EVD in -> valid handle out with ASYNC flag and qlen >= request", nullptr},
    {42, "10.2", "ia_open_async_no_cno", "created async EVD has no CNO, is enabled and waitable", nullptr},
    {43, "10.2", "ia_open_qlen_zero", "qlen <= 0 with NULL async EVD -> INVALID_PARAMETER", nullptr},
    {44, "10.2", "ia_open_existing_async", "passing an existing async EVD keeps the handle, qlen ignored", nullptr},
    {45, "10.2", "ia_open_async_exists", "ASYNC_EXISTS accepted, OUT_OF_SCOPE or usable EVD reported by query", nullptr},
    {46, "10.2", "ia_open_twice", "two opens give distinct handles usable independently", nullptr},
    {47, "10.2", "ia_close_bad_handle", "NULL or closed handle -> INVALID_HANDLE", nullptr},
    {48, "10.2", "ia_close_bad_flags", "flag 7 -> INVALID_PARAMETER", nullptr},
    {49, "10.2", "ia_close_graceful_empty", "graceful close of unused IA -> SUCCESS", nullptr},
    {50, "10.2", "ia_close_graceful_busy_each", "graceful with one leftover of each type -> INVALID_STATE, IA still usable", nullptr},
    {51, "10.2", "ia_close_abrupt_everything", "abrupt close with every object type live -> SUCCESS", nullptr},
    {52, "10.2", "ia_close_abrupt_connected", "peer of a connected EP gets DISCONNECTED or BROKEN", nullptr},
    {53, "10.2", "ia_close_abrupt_evd_waiter", "blocked evd_wait returns ABORT", nullptr},
    {54, "10.2", "ia_close_abrupt_cno_waiter", "blocked cno_wait returns SUCCESS with NULL EVD", nullptr},
    {55, "10.2", "ia_close_abrupt_agent", "attached proxy agent called with NULL EVD", nullptr},
    {56, "10.2", "ia_close_keeps_foreign_async", "async EVD passed in survives close", nullptr},
    {57, "10.2", "ia_close_other_instance", "closing one open leaves the other working", nullptr},
    {58, "10.2", "ia_close_no_leak", "open/create all/abrupt close loop does not grow fds, threads, memory", nullptr},
    {59, "10.2", "ia_query_null_outputs", "masks 0 with NULL pointers -> SUCCESS", nullptr},
    {60, "10.2", "ia_query_mask_null_ptr", "non-zero mask with NULL structure -> INVALID_PARAMETER", nullptr},
    {61, "10.2", "ia_query_bad_mask", "undefined mask bit -> INVALID_PARAMETER", nullptr},
    {62, "10.2", "ia_attr_names_terminated", "adapter and vendor names NUL-terminated and non-empty", nullptr},
    {63, "10.2", "ia_attr_address", "ia_address_ptr non-NULL with AF_INET or AF_INET6", nullptr},
    {64, "10.2", "ia_attr_limits_positive", "mandatory limits >= 1, 32-bit sizes not wrapped", nullptr},
    {65, "10.2", "prov_attr_version", "dapl_version 2.0 and is_thread_safe equal the registered values", nullptr},
    {66, "10.2", "prov_attr_private_data_min", "max_private_data_size >= 64", nullptr},
    {67, "10.2", "prov_attr_merge_matrix", "matrix symmetric, values boolean", nullptr},
    {68, "10.2", "prov_attr_completion_flags", "reported flags match behaviour", nullptr},
    {69, "10.2", "prov_attr_all_filled", "no field keeps a poison pattern after query with ALL", nullptr},
    {70, "10.2", "prov_attr_srq_consistent", "srq_supported <=> max_srqs > 0 <=> srq_create works", nullptr},
    {71, "10.2", "ctx_set_get_each_type", "context round-trips on every object type", nullptr},
    {72, "10.2", "ctx_replace_clear", "second set replaces; NULL clears", nullptr},
    {73, "10.2", "ctx_bad_handle", "NULL handle -> INVALID_HANDLE", nullptr},
    {74, "10.2", "handle_type_each", "get_handle_type correct for all twelve types", nullptr},
    {75, "10.2", "handle_wrong_type", "each call rejects a handle of another type with INVALID_HANDLE", nullptr},
    {76, "10.2", "handle_use_after_free", "each free followed by query -> INVALID_HANDLE or no crash", nullptr},
    // 10.3 PZ and LMR
    {77, "10.3", "pz_free_busy_ep", "PZ used by EP -> INVALID_STATE", nullptr},
    {78, "10.3", "pz_free_busy_lmr", "PZ used by LMR -> INVALID_STATE", nullptr},
    {79, "10.3", "pz_free_busy_rmr", "PZ used by RMR -> INVALID_STATE", nullptr},
    {80, "10.3", "pz_free_busy_srq", "PZ used by SRQ -> INVALID_STATE", nullptr},
    {81, "10.3", "lmr_create_virtual", "registration returns usable context and range >= request", nullptr},
    {82, "10.3", "lmr_create_zero_length", "length 0 -> INVALID_PARAMETER", nullptr},
    {83, "10.3", "lmr_create_bad_priv", "unknown privilege bit -> INVALID_PARAMETER", nullptr},
    {84, "10.3", "lmr_create_no_remote_ctx", "without remote privilege rmr_context is not 0, and of no use to peers", nullptr},
    {85, "10.3", "lmr_create_remote_ctx", "with remote privilege rmr_context non-zero and usable", nullptr},
    {86, "10.3", "lmr_create_from_lmr", "LMR type registers same range with other PZ and privileges", nullptr},
    {87, "10.3", "lmr_from_lmr_source_freed", "derived LMR keeps working after source freed", nullptr},
    {88, "10.3", "lmr_create_shared_cookie", "two sharers with equal 40-byte cookie succeed, embedded NULs significant", nullptr},
    {89, "10.3", "lmr_create_shared_unsupported", "unsupported type -> MODEL_NOT_SUPPORTED or NOT_IMPLEMENTED", nullptr},
    {90, "10.3", "lmr_create_zb", "zero-based VA honoured or MODEL_NOT_SUPPORTED per zb_supported", nullptr},
    {91, "10.3", "lmr_query_all", "query returns what create returned", nullptr},
    {92, "10.3", "lmr_free_bound", "LMR with bound RMR -> INVALID_STATE; after unbind SUCCESS", nullptr},
    {93, "10.3", "lmr_free_then_local_post", "later post using it fails now or completes LOCAL_PROTECTION", nullptr},
    {94, "10.3", "lmr_free_then_remote", "peer RDMA with its context -> REMOTE_ACCESS and broken", nullptr},
    {95, "10.3", "lmr_sync_valid", "sync_read and sync_write with valid segments -> SUCCESS", nullptr},
    {96, "10.3", "lmr_sync_bad_range", "range outside LMR -> INVALID_PARAMETER", nullptr},
    // 10.4 EVD
    {97, "10.4", "evd_create_each_flag", "each single stream flag accepted (async per provider)", nullptr},
    {98, "10.4", "evd_create_merge_ok", "every pair declared mergeable is creatable", nullptr},
    {99, "10.4", "evd_create_merge_bad", "every pair declared unmergeable -> INVALID_PARAMETER", nullptr},
    {100, "10.4", "evd_create_qlen_bad", "qlen 0 or negative -> INVALID_PARAMETER", nullptr},
    {101, "10.4", "evd_create_qlen_huge", "above max_evd_qlen -> INSUFFICIENT_RESOURCES", nullptr},
    {102, "10.4", "evd_query_initial", "state is enabled, waitable, one configuration value; qlen >= request", nullptr},
    {103, "10.4", "evd_dequeue_empty", "empty -> QUEUE_EMPTY", nullptr},
    {104, "10.4", "evd_dequeue_order", "software events dequeued in posting order", nullptr},
    {105, "10.4", "evd_dequeue_when_disabled", "dequeue works while disabled and unwaitable", nullptr},
    {106, "10.4", "evd_dequeue_exactly_once", "concurrent dequeuers get each event exactly once", nullptr},
    {107, "10.4", "evd_wait_immediate", "queued event returned without blocking, nmore correct", nullptr},
    {108, "10.4", "evd_wait_timeout_zero", "empty EVD, timeout 0 -> TIMEOUT_EXPIRED at once, nmore 0", nullptr},
    {109, "10.4", "evd_wait_timeout_elapsed", "waits at least the timeout (us) and not much longer", nullptr},
    {110, "10.4", "evd_wait_timeout_keeps_events", "below threshold: nothing dequeued, nmore = count", nullptr},
    {111, "10.4", "evd_wait_threshold_zero", "threshold 0 or negative -> INVALID_PARAMETER", nullptr},
    {112, "10.4", "evd_wait_threshold_qlen", "threshold = qlen accepted, qlen+1 -> INVALID_PARAMETER", nullptr},
    {113, "10.4", "evd_wait_threshold_met", "wakes only when threshold reached, nmore >= threshold-1", nullptr},
    {114, "10.4", "evd_wait_second_waiter", "second wait -> INVALID_STATE, first unaffected", nullptr},
    {115, "10.4", "evd_wait_blocks_dequeue", "dequeue while waited -> INVALID_STATE", nullptr},
    {116, "10.4", "evd_wait_unwaitable", "wait on unwaitable -> INVALID_STATE; works again after clear", nullptr},
    {117, "10.4", "evd_set_unwaitable_wakes", "blocked waiter returns INVALID_STATE", nullptr},
    {118, "10.4", "evd_wait_signal", "signal handler run -> INTERRUPTED_CALL or transparent restart", nullptr},
    {119, "10.4", "evd_wait_no_lost_wakeup", "producer/consumer stress never hangs", nullptr},
    {120, "10.4", "evd_wait_total_timeout", "repeated non-satisfying wake-ups do not extend the timeout", nullptr},
    {121, "10.4", "evd_resize_grow", "grow keeps queued events and order", nullptr},
    {122, "10.4", "evd_resize_below_count", "below queued count -> INVALID_STATE, unchanged (or larger kept)", nullptr},
    {123, "10.4", "evd_post_se_ok", "event arrives with number, pointer and evd_handle", nullptr},
    {124, "10.4", "evd_post_se_wrong_number", "other event number -> INVALID_PARAMETER", nullptr},
    {125, "10.4", "evd_post_se_no_flag", "EVD without SOFTWARE flag -> INVALID_PARAMETER", nullptr},
    {126, "10.4", "evd_post_se_full", "full queue -> QUEUE_FULL, nothing queued, no async event", nullptr},
    {127, "10.4", "evd_overflow_async", "hardware-stream overflow -> EVD_OVERFLOW on the async EVD", nullptr},
    {128, "10.4", "evd_free_busy", "EVD used by EP, PSP, RSP -> INVALID_STATE", nullptr},
    {129, "10.4", "evd_free_async", "freeing the implicit async EVD refused", nullptr},
    // 10.5 CNO
    {130, "10.5", "cno_wait_timeout", "no trigger -> QUEUE_EMPTY and NULL EVD", nullptr},
    {131, "10.5", "cno_wait_trigger", "software event on attached EVD -> SUCCESS with that EVD", nullptr},
    {132, "10.5", "cno_trigger_sticky", "trigger before wait -> next wait returns at once; a second wait times out", nullptr},
    {133, "10.5", "cno_two_evds", "events on two EVDs: both drainable after one wake-up", nullptr},
    {134, "10.5", "cno_disabled_evd", "disabled EVD does not trigger", nullptr},
    {135, "10.5", "cno_enable_no_retro", "enable after event: drain-then-wait protocol loses nothing", nullptr},
    {136, "10.5", "cno_evd_waiter_preempts", "with a direct EVD waiter the CNO is not triggered", nullptr},
    {137, "10.5", "cno_agent_called_once", "agent runs once per installation with the EVD", nullptr},
    {138, "10.5", "cno_agent_rearm", "modify_agent re-arms; fires on the next event", nullptr},
    {139, "10.5", "cno_agent_and_waiter", "agent and waiter both notified", nullptr},
    {140, "10.5", "cno_modify_cno_switch", "after modify_cno only the new CNO is triggered", nullptr},
    {141, "10.5", "cno_free_referenced", "EVD attached -> INVALID_STATE", nullptr},
    {142, "10.5", "cno_free_waited", "blocked waiter -> INVALID_STATE", nullptr},
    {143, "10.5", "cno_last_evd_freed", "waiter released with NULL EVD when last EVD freed", nullptr},
    {144, "10.5", "cno_fd_readable", "fd readable exactly while triggered", nullptr},
    {145, "10.5", "cno_fd_trigger_clears", "cno_trigger returns latest EVD and clears readability", nullptr},
    {146, "10.5", "cno_race_protocol", "drain/wait stress with DTO completions never hangs", nullptr},
    // 10.6 EP creation and attributes
    {147, "10.6", "ep_create_null_attr", "NULL attributes -> defaults within IA limits", nullptr},
    {148, "10.6", "ep_create_unconnected", "new EP is UNCONNECTED and idle", nullptr},
    {149, "10.6", "ep_create_wrong_evd_flag", "EVD lacking the stream flag -> INVALID_HANDLE", nullptr},
    {150, "10.6", "ep_create_attr_exceeds", "each attribute above IA limit -> INVALID_PARAMETER", nullptr},
    {151, "10.6", "ep_create_bad_recv_flags", "SUPPRESS or BARRIER as recv attribute -> INVALID_PARAMETER", nullptr},
    {152, "10.6", "ep_create_mixed_completion_modes", "different completion flags of streams on one EVD are accepted", nullptr},
    {153, "10.6", "ep_query_fields", "query returns creation parameters", nullptr},
    {154, "10.6", "ep_query_remote_connected", "remote address and port correct when CONNECTED", nullptr},
    {155, "10.6", "ep_modify_readonly_fields", "IA, state, addresses, ports -> INVALID_PARAMETER", nullptr},
    {156, "10.6", "ep_modify_pz_states", "PZ allowed only UNCONNECTED and TENTATIVE", nullptr},
    {157, "10.6", "ep_modify_evd_states", "EVDs allowed before connection, INVALID_STATE when CONNECTED", nullptr},
    {158, "10.6", "ep_modify_atomic", "one bad field leaves all fields unchanged", nullptr},
    {159, "10.6", "ep_modify_recv_flags_after_post", "recv flags changed after a posted receive", nullptr},
    {160, "10.6", "ep_status_idle_sense", "recv_idle/request_idle TRUE when nothing outstanding, FALSE otherwise", nullptr},
    {161, "10.6", "ep_free_unconnected_posted", "EP with posted receives freeable; no crash on later dequeue", nullptr},
    {162, "10.6", "ep_free_connected", "peer sees DISCONNECTED or BROKEN", nullptr},
    {163, "10.6", "ep_free_reserved", "RESERVED -> INVALID_STATE, SUCCESS after rsp_free", nullptr},
    {164, "10.6", "ep_free_passive", "PASSIVE -> INVALID_STATE, SUCCESS after cr_reject", nullptr},
    {165, "10.6", "ep_reset_unconnected", "no-op, posted receives kept", nullptr},
    {166, "10.6", "ep_reset_states", "CONNECTED, pending, RESERVED -> INVALID_STATE", nullptr},
    {167, "10.6", "ep_reset_reconnect", "after reset the EP connects and transfers again", nullptr},
    // 10.7 Connections
    {168, "10.7", "conn_basic_events", "both sides get exactly one ESTABLISHED and are CONNECTED", nullptr},
    {169, "10.7", "conn_private_data_each_way", "connect and accept data arrive with exact size and bytes", nullptr},
    {170, "10.7", "conn_private_data_max", "max size accepted; max+1, negative, or NULL with size > 0 -> INVALID_PARAMETER", nullptr},
    {171, "10.7", "conn_private_data_lifetime", "active data readable after disconnect, until reset", nullptr},
    {172, "10.7", "conn_timeout_zero", "timeout 0 -> INVALID_PARAMETER", nullptr},
    {173, "10.7", "conn_timeout_fires", "unanswered CR -> TIMED_OUT, EP DISCONNECTED", nullptr},
    {174, "10.7", "conn_no_listener", "NON_PEER_REJECTED, EP DISCONNECTED", nullptr},
    {175, "10.7", "conn_unreachable", "dead address -> UNREACHABLE or TIMED_OUT", nullptr},
    {176, "10.7", "conn_bad_address", "multicast or malformed address -> INVALID_ADDRESS or failure event", nullptr},
    {177, "10.7", "conn_bad_state", "connect from every state but UNCONNECTED -> INVALID_STATE", nullptr},
    {178, "10.7", "conn_no_connect_evd", "EP without connect EVD or PZ -> INVALID_STATE", nullptr},
    {179, "10.7", "conn_qos_unsupported", "unsupported QoS -> MODEL_NOT_SUPPORTED, EP unchanged", nullptr},
    {180, "10.7", "conn_failure_then_reset", "after any failed attempt reset + connect works", nullptr},
    {181, "10.7", "conn_reject_event", "cr_reject -> PEER_REJECTED with private data", nullptr},
    {182, "10.7", "conn_reject_flushes", "receives posted on active EP flushed on rejection", nullptr},
    {183, "10.7", "conn_backlog_full", "CR EVD full -> further connects NON_PEER_REJECTED", nullptr},
    {184, "10.7", "conn_accept_destroys_cr", "CR handle invalid after accept", nullptr},
    {185, "10.7", "conn_accept_needs_ep", "CONSUMER PSP with NULL ep -> INVALID_HANDLE", nullptr},
    {186, "10.7", "conn_accept_extra_ep", "RSP/PROVIDER CR with explicit ep -> INVALID_HANDLE", nullptr},
    {187, "10.7", "conn_accept_bad_ep_keeps_cr", "unsuitable EP: error, CR still acceptable", nullptr},
    {188, "10.7", "conn_accept_after_peer_timeout", "ACCEPT_COMPLETION_ERROR, EP DISCONNECTED, receives flushed", nullptr},
    {189, "10.7", "conn_cr_query", "address, port, private data, local EP reported", nullptr},
    {190, "10.7", "conn_cr_event_fields", "sp_handle, conn_qual, local address, truncate_flag FALSE", nullptr},
    {191, "10.7", "conn_handoff", "request reappears on the other service point or unsupported code", nullptr},
    {192, "10.7", "conn_abort_active", "disconnect while ACTIVE -> DISCONNECTED, receives flushed", nullptr},
    {193, "10.7", "conn_abort_completion_pending", "disconnect while COMPLETION_PENDING -> DISCONNECTED", nullptr},
    {194, "10.7", "conn_dup_same_service", "dup_connect reaches the same remote service", nullptr},
    {195, "10.7", "conn_dup_requires_connected", "dup EP not CONNECTED -> INVALID_STATE", nullptr},
    {196, "10.7", "conn_common_connect", "CSP and common_connect establish, addresses conveyed", nullptr},
    {197, "10.7", "conn_common_needs_comm", "EP without communicator -> INVALID_STATE", nullptr},
    {198, "10.7", "conn_many", "1000 sequential connect/disconnect/reset cycles leak nothing", nullptr},
    {199, "10.7", "psp_qual_in_use", "second PSP on same qualifier -> CONN_QUAL_IN_USE", nullptr},
    {200, "10.7", "psp_any_unique", "create_any returns distinct usable non-privileged qualifiers", nullptr},
    {201, "10.7", "psp_bad_evd", "EVD without CR flag -> INVALID_HANDLE", nullptr},
    {202, "10.7", "psp_provider_flag", "PROVIDER flag follows ep_creator or MODEL_NOT_SUPPORTED", nullptr},
    {203, "10.7", "psp_provider_ep_state", "provider EP TENTATIVE with NULL PZ and EVDs", nullptr},
    {204, "10.7", "psp_free_rejects", "connects after free -> NON_PEER_REJECTED", nullptr},
    {205, "10.7", "psp_free_keeps_cr", "earlier CR acceptable after psp_free", nullptr},
    {206, "10.7", "rsp_ep_reserved", "EP becomes RESERVED, back to UNCONNECTED on rsp_free", nullptr},
    {207, "10.7", "rsp_one_shot", "first request consumes RSP; second -> NON_PEER_REJECTED", nullptr},
    {208, "10.7", "rsp_event_sp_null", "CR event of RSP has its handle as sp_handle; EP PASSIVE", nullptr},
    {209, "10.7", "rsp_free_after_request", "rsp_free after arrival -> INVALID_HANDLE", nullptr},
    {210, "10.7", "rsp_reject_returns_ep", "EP UNCONNECTED and reusable after reject", nullptr},
    {211, "10.7", "rsp_ep_not_unconnected", "EP in other state -> INVALID_STATE", nullptr},
    {212, "10.7", "csp_port_in_use", "second CSP on same port -> PORT_IN_USE", nullptr},
    // 10.8 Disconnect
    {213, "10.8", "disc_abrupt_both_sides", "each side gets exactly one DISCONNECTED", nullptr},
    {214, "10.8", "disc_graceful_drains", "requests posted before graceful complete successfully", nullptr},
    {215, "10.8", "disc_graceful_no_new", "post in DISCONNECT_PENDING -> INVALID_STATE", nullptr},
    {216, "10.8", "disc_graceful_twice", "second graceful -> SUCCESS, no extra event", nullptr},
    {217, "10.8", "disc_flushes_recvs", "all posted receives flushed with their cookies, in order", nullptr},
    {218, "10.8", "disc_when_disconnected", "SUCCESS without event", nullptr},
    {219, "10.8", "disc_invalid_states", "UNCONNECTED, RESERVED, PASSIVE, TENTATIVE -> INVALID_STATE; bad flag -> INVALID_PARAMETER", nullptr},
    {220, "10.8", "disc_simultaneous", "both sides disconnect at once: one event each", nullptr},
    {221, "10.8", "disc_success_before_event", "same EVD: successful completions precede DISCONNECTED", nullptr},
    {222, "10.8", "disc_no_success_after_failure", "no success follows a failure in one direction", nullptr},
    {223, "10.8", "disc_marker", "marker post flushes last; reset then loses nothing", nullptr},
    {224, "10.8", "disc_peer_killed", "killed peer process -> DISCONNECTED or BROKEN within bounded time", nullptr},
    // 10.9 Data transfer
    {225, "10.9", "dto_send_recv_sizes", "0, 1, odd, page+-1, max sizes arrive intact, length exact", nullptr},
    {226, "10.9", "dto_send_zero_segments", "NULL IOV message of length 0 completes both sides", nullptr},
    {227, "10.9", "dto_zero_len_segment_ignored", "zero-length segment with garbage context harmless", nullptr},
    {228, "10.9", "dto_iov_gather_scatter", "multi-segment send to multi-segment receive in order", nullptr},
    {229, "10.9", "dto_recv_too_small", "LOCAL_LENGTH at receiver, failure at sender, connection ends", nullptr},
    {230, "10.9", "dto_recv_in_all_states", "post_recv SUCCESS in each state but SRQ EPs", nullptr},
    {231, "10.9", "dto_recv_before_connect", "receive posted UNCONNECTED used after connect", nullptr},
    {232, "10.9", "dto_post_disconnected_flush", "each request in DISCONNECTED -> SUCCESS then FLUSHED", nullptr},
    {233, "10.9", "dto_post_bad_states", "requests UNCONNECTED, pending -> INVALID_STATE", nullptr},
    {234, "10.9", "dto_cookie_roundtrip", "64-bit cookies incl. 0 and duplicates returned verbatim", nullptr},
    {235, "10.9", "dto_operation_field", "operation matches DTO kind", nullptr},
    {236, "10.9", "dto_too_many_segments", "above max_request_iov/max_recv_iov -> INVALID_PARAMETER", nullptr},
    {237, "10.9", "dto_queue_full", "posts beyond max DTOs -> INSUFFICIENT_RESOURCES, recoverable", nullptr},
    {238, "10.9", "dto_order_requests", "completions in posting order across mixed operations", nullptr},
    {239, "10.9", "dto_order_receives", "receives complete in posting order", nullptr},
    {240, "10.9", "dto_write_then_send", "written data visible when the following send is received", nullptr},
    {241, "10.9", "dto_read_data", "RDMA read returns correct data at completion, length exact", nullptr},
    {242, "10.9", "dto_read_local_small", "local IOV below remote length -> LENGTH_ERROR", nullptr},
    {243, "10.9", "dto_write_remote_small", "remote triplet below local total -> LENGTH_ERROR", nullptr},
    {244, "10.9", "dto_read_flow", "more reads than max_rdma_read_out queue and complete", nullptr},
    {245, "10.9", "dto_fence_read_send", "BARRIER_FENCE send starts after prior reads complete", nullptr},
    {246, "10.9", "dto_suppress_success", "suppressed success yields no event", nullptr},
    {247, "10.9", "dto_suppress_failure", "suppressed failure and flush yield events", nullptr},
    {248, "10.9", "dto_unsignalled_requires_attr", "UNSIGNALLED without attr -> INVALID_PARAMETER", nullptr},
    {249, "10.9", "dto_unsignalled_no_wake", "unsignalled completion queued but wakes no waiter", nullptr},
    {250, "10.9", "dto_unsignalled_then_signal", "waiter wakes on signalled one, gets oldest, nmore counts rest", nullptr},
    {251, "10.9", "dto_solicited_wake", "only solicited send wakes a SOLICITED receiver", nullptr},
    {252, "10.9", "dto_solicited_threshold", "threshold > 1 on such EVD -> INVALID_STATE (or INVALID_PARAMETER)", nullptr},
    {253, "10.9", "dto_threshold_batch", "waiter with threshold n sleeps until n completions", nullptr},
    {254, "10.9", "dto_recv_flags_invalid", "SUPPRESS/SOLICITED/FENCE on receive rejected", nullptr},
    {255, "10.9", "dto_pz_mismatch", "local LMR of other PZ -> PROTECTION_VIOLATION or LOCAL_PROTECTION", nullptr},
    {256, "10.9", "dto_no_local_right", "missing local right -> PRIVILEGES_VIOLATION or LOCAL_PROTECTION", nullptr},
    {257, "10.9", "dto_bad_rmr_context", "wrong context -> REMOTE_ACCESS, BROKEN, target memory intact", nullptr},
    {258, "10.9", "dto_remote_range", "one byte beyond region -> REMOTE_ACCESS", nullptr},
    {259, "10.9", "dto_remote_right", "read without REMOTE_READ, write without REMOTE_WRITE -> REMOTE_ACCESS", nullptr},
    {260, "10.9", "dto_remote_pz", "target EP of other PZ -> REMOTE_ACCESS", nullptr},
    {261, "10.9", "dto_rdma_zero_length", "zero-length read and write succeed", nullptr},
    {262, "10.9", "dto_no_recv_posted", "sender gets RECEIVER_NOT_READY or break, bounded time", nullptr},
    {263, "10.9", "dto_error_flushes_rest", "operations behind a failed one are FLUSHED", nullptr},
    {264, "10.9", "dto_null_evd_discards", "EP with NULL recv EVD moves data without events", nullptr},
    {265, "10.9", "dto_send_invalidate", "peer gets RECEIVE_WITH_INVALIDATE and context; RMR unusable after", nullptr},
    {266, "10.9", "dto_send_invalidate_false", "flag FALSE behaves as plain send", nullptr},
    {267, "10.9", "dto_read_to_rmr", "read into RMR-named buffer or MODEL_NOT_SUPPORTED", nullptr},
    // 10.10 RMR
    {268, "10.10", "rmr_bind_use", "bound context allows exactly the granted access and range", nullptr},
    {269, "10.10", "rmr_bind_event", "completion has rmr handle, cookie, SUCCESS on request EVD", nullptr},
    {270, "10.10", "rmr_bind_then_send_safe", "context sent right after bind is usable by the peer", nullptr},
    {271, "10.10", "rmr_bind_right_missing", "LMR lacking local right -> PRIVILEGES_VIOLATION where required", nullptr},
    {272, "10.10", "rmr_bind_pz_mismatch", "other PZ -> PROTECTION_VIOLATION or INVALID_PARAMETER", nullptr},
    {273, "10.10", "rmr_bind_states", "not CONNECTED/DISCONNECTED -> INVALID_STATE; DISCONNECTED -> flushed", nullptr},
    {274, "10.10", "rmr_rebind_invalidates", "old context fails after rebind completes", nullptr},
    {275, "10.10", "rmr_unbind", "length 0 revokes access and releases the LMR", nullptr},
    {276, "10.10", "rmr_free_bound", "free while bound succeeds and revokes", nullptr},
    {277, "10.10", "rmr_scope_ep", "EP-scoped context refused on another EP", nullptr},
    // 10.11 SRQ and watermarks
    {278, "10.11", "srq_create_attrs", "actual sizes >= requested, state OPERATIONAL; a watermark is ignored (ours, as OpenFabrics)", nullptr},
    {279, "10.11", "srq_post_recv_ep_illegal", "post_recv on SRQ EP rejected", nullptr},
    {280, "10.11", "srq_event_ep_handle", "receive completion names the consuming EP", nullptr},
    {281, "10.11", "srq_two_eps_share", "buffers consumed by both EPs, per-connection order kept", nullptr},
    {282, "10.11", "srq_disconnect_keeps_buffers", "disconnect of one EP leaves SRQ buffers for others", nullptr},
    {283, "10.11", "srq_counts", "available/outstanding follow the 10/3/3 -> 10/2/3 -> 10/2/2 example or UNKNOWN", nullptr},
    {284, "10.11", "srq_resize_below_outstanding", "INVALID_STATE", nullptr},
    {285, "10.11", "srq_free_in_use", "INVALID_STATE while an EP is associated", nullptr},
    {286, "10.11", "srq_low_watermark_once", "one async event per arming, again after re-arming", nullptr},
    {287, "10.11", "srq_reset_keeps_association", "EP uses the SRQ after reset and reconnect", nullptr},
    {288, "10.11", "ep_soft_watermark_once", "soft mark exceeded -> one async event", nullptr},
    {289, "10.11", "ep_hard_watermark_breaks", "hard mark exceeded -> BROKEN", nullptr},
    {290, "10.11", "ep_recv_query_counts", "span >= count, UNKNOWN allowed, NULL outputs tolerated", nullptr},
    // 10.12 Concurrency and robustness
    {291, "10.12", "thr_safe_functions", "functions marked Safe run concurrently without corruption", nullptr},
    {292, "10.12", "thr_post_from_agent", "posting from a proxy agent works", nullptr},
    {293, "10.12", "thr_close_race", "closing one IA while another is busy is safe", nullptr},
    {294, "10.12", "rob_fork_exec", "descriptors are close-on-exec", nullptr},
    {295, "10.12", "rob_invalid_enum_values", "out-of-range enums are rejected, never crash", nullptr},
    {296, "10.12", "rob_fuzz_handles", "NULL for every handle argument -> INVALID_HANDLE", nullptr},
    {297, "10.12", "rob_stub_entries", "unsupported functions return MODEL_NOT_SUPPORTED/NOT_IMPLEMENTED and export a symbol", nullptr},
    {298, "10.12", "rob_layout", "structure sizes, offsets, enum values equal the 2.0 headers", "tests/abi/layout.cpp: checked when the headers are compiled"},
    // 10.13 Vendor attributes and tracing
    {299, "10.13", "vend_delayed_ack_flag", "delayed_ack modifiable iff delayed_ack_supported is true", nullptr},
    {300, "10.13", "vend_extension_lookup", "debug_query/debug_modify present iff vendor_extension is true", nullptr},
    {301, "10.13", "vend_trace_query_modify", "modify then query returns the level; outside 0-10 rejected", nullptr},
    {302, "10.13", "vend_trace_env", "DAT_TRACE_LEVEL/DAPL_TRACE_LEVEL set initial levels", nullptr},
    // Bugs that users of OpenFabrics dapl 2.1.10 met. The titles describe its wrong behaviour.
    // ofa 1 missing functions
    {303, "ofa 1", "ofa_1_rmr_advertised_means_usable", "RMRs are advertised and then refused", nullptr},
    {304, "ofa 1", "ofa_1_lmr_types_advertised_mean_usable", "LMR of LMR is advertised and then not implemented", nullptr},
    {305, "ofa 1", "ofa_1_shared_lmr_incomplete", "an incomplete shared memory descriptor crashes", nullptr},
    {306, "ofa 1", "ofa_1_zero_based", "zero-based addresses answer NOT_IMPLEMENTED", nullptr},
    {307, "ofa 1", "ofa_1_srq_set_lw", "srq_set_lw is not implemented", nullptr},
    {308, "ofa 1", "ofa_1_recv_query", "ep_recv_query is not implemented", nullptr},
    {309, "ofa 1", "ofa_1_set_watermark", "ep_set_watermark is not implemented", nullptr},
    {310, "ofa 1", "ofa_1_cr_handoff", "cr_handoff is not implemented", nullptr},
    {311, "ofa 1", "ofa_1_cno_descriptor", "no descriptor for event loops", nullptr},
    {312, "ofa 1", "ofa_1_csp", "csp_* and ep_common_connect are not even exported", nullptr},
    {313, "ofa 1", "ofa_1_stubs_exported", "functions of 2.0 are declared and not exported", nullptr},
    {314, "ofa 1", "ofa_1_send_invalidate", "post_send_with_invalidate is missing", nullptr},
    {315, "ofa 1", "ofa_1_read_to_rmr", "rdma_read_to_rmr is missing", nullptr},
    {316, "ofa 1", "ofa_1_qos", "QoS beyond best effort is refused without saying so", nullptr},
    {317, "ofa 1", "ofa_1_multipath_falls_back", "a requested second path is refused", nullptr},
    {318, "ofa 1", "ofa_1_graceful", "graceful disconnect is ignored", nullptr},
    {319, "ofa 1", "ofa_1_counters", "counters are compiled out", "an extension, not part of uDAPL 2.0: an unknown operation is refused (extensions/ext_lacking_operations)"},
    {320, "ofa 1", "ofa_1_collectives", "collectives need a dead library", "an extension, not part of uDAPL 2.0: an unknown operation is refused (extensions/ext_lacking_operations)"},
    {321, "ofa 1", "ofa_1_ud", "datagrams are missing in some providers", "an extension; an IA that does not advertise it refuses it (extensions/ext_open_query_refused)"},
    {322, "ofa 1", "ofa_1_provider_attributes", "provider attributes are never written", nullptr},
    {323, "ofa 1", "ofa_1_max_srqs", "max_srqs is 0 though SRQs work", nullptr},
    {324, "ofa 1", "ofa_1_ipv6", "no IPv6, no choice of GID", "a matter of the device and of dat.conf, which no program of the API sees"},
    // ofa 2.1 completions and events
    {325, "ofa 2.1", "ofa_2_1_01_failed_receive_is_a_dto_event", "failed receives come as another event, with fields unwritten", nullptr},
    {326, "ofa 2.1", "ofa_2_1_02_all_fields_of_a_dto_event", "operation and rmr_context are never written", nullptr},
    {327, "ofa 2.1", "ofa_2_1_03_srq_event_names_the_ep", "the event of an SRQ receive names the SRQ", nullptr},
    {328, "ofa 2.1", "ofa_2_1_04_srq_cookies", "cookies of SRQ buffers are mixed up", nullptr},
    {329, "ofa 2.1", "ofa_2_1_05_srq_async_event", "async events of an SRQ crash", nullptr},
    {330, "ofa 2.1", "ofa_2_1_06_failed_post_code", "the code of a failed post is what errno held", nullptr},
    {331, "ofa 2.1", "ofa_2_1_07_log_of_failures", "the log names the wrong operation and no peer", "traces are not part of the API; the events are: ofa_2_1_01, ofa_2_1_02"},
    {332, "ofa 2.1", "ofa_2_1_08_both_sides_learn_of_a_dto_error", "the peer of a failed request is never notified", nullptr},
    {333, "ofa 2.1", "ofa_2_1_09_dto_error_without_dequeue", "an error is only noticed by a thread that dequeues", nullptr},
    {334, "ofa 2.1", "ofa_2_1_10_posts_when_disconnected", "receives posted in DISCONNECTED never complete", nullptr},
    {335, "ofa 2.1", "ofa_2_1_11_async_evd_overflows", "overflow: wrong handle; of the async EVD: the process ends", nullptr},
    {336, "ofa 2.1", "ofa_2_1_12_port_events", "events of the port have undefined numbers", "no program can make a port change; the mapping is in providers/verbs and its unit tests"},
    {337, "ofa 2.1", "ofa_2_1_13_idle_flags", "idle flags are inverted", nullptr},
    {338, "ofa 2.1", "ofa_2_1_14_class_bits", "one condition, two codes: QUEUE_EMPTY and TIMEOUT_EXPIRED", "kept for existing programs (docs/compatibility.md C18, docs/compatibility.md C19); both forms are of one type, which evd_states/dequeue and evd_states/wait look at"},
    {339, "ofa 2.1", "ofa_2_1_15_cno_timeout", "a CNO that times out says QUEUE_EMPTY", nullptr},
    // ofa 2.2 EVDs
    {340, "ofa 2.2", "ofa_2_2_01_resize_of_a_dto_evd", "resize of a DTO EVD deadlocks", nullptr},
    {341, "ofa 2.2", "ofa_2_2_02_timeouts_shorter_and_longer", "timeouts below 1 ms are 0, long ones overflow", nullptr},
    {342, "ofa 2.2", "ofa_2_2_02_total_timeout", "the timeout starts anew with each wake-up", nullptr},
    {343, "ofa 2.2", "ofa_2_2_03_set_unwaitable_wakes_a_dto_waiter", "set_unwaitable does not wake a waiter for DTOs", nullptr},
    {344, "ofa 2.2", "ofa_2_2_04_merged_evd_wakes_for_each_stream", "a waiter on a merged EVD sleeps through other streams", nullptr},
    {345, "ofa 2.2", "ofa_2_2_05_overflow_during_a_wait", "overflow during a wait leaves the EVD waited for ever", nullptr},
    {346, "ofa 2.2", "ofa_2_2_06_wait_after_failed_waits", "failed waits unlock what they do not hold", nullptr},
    {347, "ofa 2.2", "ofa_2_2_07_mode_of_an_evd", "attaching an EP changes the mode of an EVD silently", nullptr},
    // ofa 2.3 connections
    {348, "ofa 2.3", "ofa_2_3_01_ep_reuse_after_reset", "an EP cannot be used again after reset", nullptr},
    {349, "ofa 2.3", "ofa_2_3_02_private_data_too_long", "private data too long: BROKEN later, or a crash", nullptr},
    {350, "ofa 2.3", "ofa_2_3_03_private_data_null", "private data of a size but null crashes", nullptr},
    {351, "ofa 2.3", "ofa_2_3_04_failed_accept_keeps_cr", "an accept with too much data destroys the request", nullptr},
    {352, "ofa 2.3", "ofa_2_3_05_timeout_tells_the_peer", "a timeout of the active side is not reported to the peer", nullptr},
    {353, "ofa 2.3", "ofa_2_3_06_private_data_length_is_exact", "private data arrives padded, or with foreign bytes", nullptr},
    {354, "ofa 2.3", "ofa_2_3_07_ucm_no_listener", "no listener: the wrong event and a leaked lock", nullptr},
    {355, "ofa 2.3", "ofa_2_3_08_ucm_reply_failure", "a failed datagram reply posts an unusable event", "only of the datagram connection manager, which does not exist here"},
    {356, "ofa 2.3", "ofa_2_3_09_reject_is_the_peers", "a reject by the consumer looks like NON_PEER_REJECTED", nullptr},
    {357, "ofa 2.3", "ofa_2_3_10_reject_data", "reject data is read beyond its end", nullptr},
    {358, "ofa 2.3", "ofa_2_3_11_unreachable", "an unreachable host looks like a reject", nullptr},
    {359, "ofa 2.3", "ofa_2_3_12_ucm_ports", "ports are compared in 16 of 24 bits", "only of the datagram connection manager, which does not exist here"},
    {360, "ofa 2.3", "ofa_2_3_13_psp_create_any_gives_up", "psp_create_any tries for ever", nullptr},
    {361, "ofa 2.3", "ofa_2_3_14_conn_qual_of_64_bits", "qualifiers beyond 65535 are folded and reported as something else", nullptr},
    {362, "ofa 2.3", "ofa_2_3_15_scm_ports", "ports wrap; a retry shifts private data", "only of the socket connection manager, which does not exist here"},
    {363, "ofa 2.3", "ofa_2_3_16_ep_freed_before_its_timeout", "a timer touches an EP that is gone", nullptr},
    {364, "ofa 2.3", "ofa_2_3_17_srq_ep_without_connect_evd", "an EP with SRQ and no connect EVD crashes", nullptr},
    {365, "ofa 2.3", "ofa_2_3_18_request_in_pieces", "a request in two segments is refused, a stalled one blocks all", "tests/unit/soft_io/cm_hostile.cpp: connections that dribble, stall and lie"},
    {366, "ofa 2.3", "ofa_2_3_19_disconnect_does_not_wait_for_the_consumer", "disconnect spins until receives are flushed", nullptr},
    {367, "ofa 2.3", "ofa_2_3_20_graceful_waits", "graceful disconnect does not wait for requests", nullptr},
    // ofa 2.4 registry
    {368, "ofa 2.4", "ofa_2_4_01_version_fields", "version fields are read past their end", "tests/loader/list.cpp:reg_conf_bad_version"},
    {369, "ofa 2.4", "ofa_2_4_02_thread_safe_entries", "threadsafe entries are listed and never open", "tests/loader/open.cpp:reg_open_threadsafe_twins"},
    {370, "ofa 2.4", "ofa_2_4_03_later_entries", "a later entry is tried only if a library is missing", "tests/loader/open.cpp:reg_open_failure_fallback"},
    {371, "ofa 2.4", "ofa_2_4_04_crlf", "CRLF loses all entries", "tests/loader/list.cpp:reg_conf_crlf"},
    {372, "ofa 2.4", "ofa_2_4_05_parameters_without_blank", "an entry leaks when ia_params has no blank", "tests/loader/life.cpp:reg_init_args"},
    {373, "ofa 2.4", "ofa_2_4_06_attributes_of_two_ias", "attributes of one IA overwrite another's", nullptr},
    // ofa 2.5 codes
    {374, "ofa 2.5", "ofa_2_5_registration_says_why", "every failure to register is INSUFFICIENT_RESOURCES", nullptr},
    {375, "ofa 2.5", "ofa_2_5_all_codes_have_text", "codes without text in dat_strerror", "tests/loader/results.cpp:strerror_all_types_and_subtypes"},
    // clang-format on
};

#undef LOADER

using boost::unit_test::test_unit;
using boost::unit_test::test_unit_id;

// What the decorators declare. A local static, because decorators may be applied before main().
std::vector<std::pair<test_unit_id, std::string>>& declared() {
  static std::vector<std::pair<test_unit_id, std::string>> list;
  return list;
}

template <class Visit>
void for_each_leaf(const test_unit& root, Visit visit) {
  struct Visitor : boost::unit_test::test_tree_visitor {
    explicit Visitor(Visit& function) : visit_leaf(function) {}
    void visit(const boost::unit_test::test_case& leaf) override { visit_leaf(leaf); }
    Visit& visit_leaf;
  } visitor(visit);
  boost::unit_test::traverse_test_tree(root, visitor, true);
}

}  // namespace

void covers::apply(test_unit& unit) {
  std::istringstream ids(ids_);
  for (std::string id; ids >> id;) declared().emplace_back(unit.p_id, id);
}

std::map<std::string_view, std::vector<std::string>> proofs() {
  std::map<std::string_view, std::vector<std::string>> result;
  const auto add = [&](std::string_view id, const std::string& path) {
    const Assertion* const assertion = find_assertion(id);
    if (assertion == nullptr) return;
    auto& paths = result[assertion->id];
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
  };
  for_each_leaf(boost::unit_test::framework::master_test_suite(),
                [&](const test_unit& leaf) { add(leaf.p_name.get(), leaf.full_name()); });
  for (const auto& [unit, id] : declared()) {
    const std::string& name = id;
    for_each_leaf(boost::unit_test::framework::get(unit, boost::unit_test::TUT_ANY),
                  [&](const test_unit& leaf) { add(name, leaf.full_name()); });
  }
  return result;
}

std::vector<std::string> unknown_covers() {
  std::vector<std::string> result;
  for (const auto& [unit, id] : declared())
    if (find_assertion(id) == nullptr) result.push_back(id);
  return result;
}

std::span<const Assertion> checklist() { return kChecklist; }

const Assertion* find_assertion(std::string_view id) {
  static const auto by_id = [] {
    std::unordered_map<std::string_view, const Assertion*> result;
    for (const Assertion& assertion : kChecklist) result.emplace(assertion.id, &assertion);
    return result;
  }();
  const auto found = by_id.find(id);
  return found == by_id.end() ? nullptr : found->second;
}

}  // namespace conformance
