/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file Service points. */
#pragma once

#include <dat/api/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dat_psp_flags { DAT_PSP_CONSUMER_FLAG = 0, DAT_PSP_PROVIDER_FLAG = 1 } DAT_PSP_FLAGS;

typedef struct dat_psp_param {
  DAT_IA_HANDLE ia_handle;
  DAT_CONN_QUAL conn_qual;
  DAT_EVD_HANDLE evd_handle;
  DAT_PSP_FLAGS psp_flags;
} DAT_PSP_PARAM;

typedef enum dat_psp_param_mask {
  DAT_PSP_FIELD_IA_HANDLE = 0x1,
  DAT_PSP_FIELD_CONN_QUAL = 0x2,
  DAT_PSP_FIELD_EVD_HANDLE = 0x4,
  DAT_PSP_FIELD_PSP_FLAGS = 0x8,
  DAT_PSP_FIELD_ALL = 0xf
} DAT_PSP_PARAM_MASK;

DAT_EXPORT DAT_RETURN DAT_API dat_psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual,
                                             DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                                             DAT_PSP_HANDLE* psp_handle);

DAT_EXPORT DAT_RETURN DAT_API dat_psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL* conn_qual,
                                                 DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                                                 DAT_PSP_HANDLE* psp_handle);

DAT_EXPORT DAT_RETURN DAT_API dat_psp_query(DAT_PSP_HANDLE psp_handle,
                                            DAT_PSP_PARAM_MASK psp_param_mask,
                                            DAT_PSP_PARAM* psp_param);

DAT_EXPORT DAT_RETURN DAT_API dat_psp_free(DAT_PSP_HANDLE psp_handle);

typedef struct dat_rsp_param {
  DAT_IA_HANDLE ia_handle;
  DAT_CONN_QUAL conn_qual;
  DAT_EVD_HANDLE evd_handle;
  DAT_EP_HANDLE ep_handle;
} DAT_RSP_PARAM;

typedef enum dat_rsp_param_mask {
  DAT_RSP_FIELD_IA_HANDLE = 0x1,
  DAT_RSP_FIELD_CONN_QUAL = 0x2,
  DAT_RSP_FIELD_EVD_HANDLE = 0x4,
  DAT_RSP_FIELD_EP_HANDLE = 0x8,
  DAT_RSP_FIELD_ALL = 0xf
} DAT_RSP_PARAM_MASK;

DAT_EXPORT DAT_RETURN DAT_API dat_rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual,
                                             DAT_EP_HANDLE ep_handle, DAT_EVD_HANDLE evd_handle,
                                             DAT_RSP_HANDLE* rsp_handle);

DAT_EXPORT DAT_RETURN DAT_API dat_rsp_query(DAT_RSP_HANDLE rsp_handle,
                                            DAT_RSP_PARAM_MASK rsp_param_mask,
                                            DAT_RSP_PARAM* rsp_param);

DAT_EXPORT DAT_RETURN DAT_API dat_rsp_free(DAT_RSP_HANDLE rsp_handle);

typedef struct dat_csp_param {
  DAT_IA_HANDLE ia_handle;
  DAT_COMM* comm;
  DAT_IA_ADDRESS_PTR address_ptr;
  DAT_EVD_HANDLE evd_handle;
} DAT_CSP_PARAM;

typedef enum dat_csp_param_mask {
  DAT_CSP_FIELD_IA_HANDLE = 0x1,
  DAT_CSP_FIELD_COMM = 0x2,
  DAT_CSP_FIELD_IA_ADDRESS = 0x4,
  DAT_CSP_FIELD_EVD_HANDLE = 0x8,
  DAT_CSP_FIELD_ALL = 0xf
} DAT_CSP_PARAM_MASK;

DAT_EXPORT DAT_RETURN DAT_API dat_csp_create(DAT_IA_HANDLE ia_handle, DAT_COMM* communicator,
                                             DAT_IA_ADDRESS_PTR address, DAT_EVD_HANDLE evd_handle,
                                             DAT_CSP_HANDLE* csp_handle);

DAT_EXPORT DAT_RETURN DAT_API dat_csp_query(DAT_CSP_HANDLE csp_handle,
                                            DAT_CSP_PARAM_MASK csp_param_mask,
                                            DAT_CSP_PARAM* csp_param);

DAT_EXPORT DAT_RETURN DAT_API dat_csp_free(DAT_CSP_HANDLE csp_handle);

#ifdef __cplusplus
}
#endif
