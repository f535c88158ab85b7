# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A peer that implements MPA, DDP and RDMAP by hand (RFC 5040, 5041, 5044, 6581), so that it can send anything at
any time. Uses no code of the product."""

import socket
import struct

REQUEST_KEY = b"MPA ID Req Frame"
REPLY_KEY = b"MPA ID Rep Frame"
READ_RTR = 0x4000  # bit D of the second enhanced word
PEER_TO_PEER = 0x8000
TAGGED, LAST = 0x80, 0x40
WRITE, READ_REQUEST, READ_RESPONSE, SEND, TERMINATE = 0, 1, 2, 3, 7


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def request(private_data=b"", revision=2, peer_to_peer=True, ird=8, ord_=8):
    """An MPA Request with CRC. Revision 1 has no enhanced words."""
    if revision == 1:
        return REQUEST_KEY + struct.pack(">BBH", 0x40, 1, len(private_data)) + private_data
    words = ((PEER_TO_PEER if peer_to_peer else 0) | ird, (READ_RTR if peer_to_peer else 0) | ord_)
    return (REQUEST_KEY + struct.pack(">BBHHH", 0x50, revision, 4 + len(private_data), *words) +
            private_data)


def fpdu(ulpdu):
    frame = struct.pack(">H", len(ulpdu)) + ulpdu
    frame += bytes(-len(frame) % 4)
    return frame + struct.pack("<I", crc32c(frame))


def untagged(opcode, queue, msn, offset, payload, last=True):
    return fpdu(struct.pack(">BBIIII", 0x01 | (LAST if last else 0), 0x40 | opcode, 0, queue, msn,
                            offset) + payload)


def send(msn, payload=b"", offset=0, last=True):
    return untagged(SEND, 0, msn, offset, payload, last)


def tagged(opcode, stag, offset, payload, last=True):
    return fpdu(struct.pack(">BBIQ", 0x01 | TAGGED | (LAST if last else 0), 0x40 | opcode, stag,
                            offset) + payload)


def write(stag, offset, payload=b"", last=True):
    return tagged(WRITE, stag, offset, payload, last)


def read_response(stag, offset, payload=b"", last=True):
    return tagged(READ_RESPONSE, stag, offset, payload, last)


def read_request(msn, source_stag, source_offset, size, sink_stag=1, sink_offset=0):
    header = struct.pack(">IQIIQ", sink_stag, sink_offset, size, source_stag, source_offset)
    return untagged(READ_REQUEST, 1, msn, 0, header)


class Frame:
    """A parsed FPDU."""

    def __init__(self, ulpdu):
        self.ulpdu = ulpdu
        self.opcode = ulpdu[1] & 0x0F
        self.last = bool(ulpdu[0] & LAST)
        if ulpdu[0] & TAGGED:
            self.stag, self.offset = struct.unpack(">IQ", ulpdu[2:14])
            self.payload = ulpdu[14:]
        else:
            self.queue, self.msn, self.offset = struct.unpack(">III", ulpdu[6:18])
            self.payload = ulpdu[18:]

    def read_request(self):
        """sink STag, sink offset, size, source STag, source offset"""
        return struct.unpack(">IQIIQ", self.payload)

    def terminate_code(self):
        """layer << 12 | type << 8 | code"""
        return self.payload[0] >> 4 << 12 | (self.payload[0] & 0x0F) << 8 | self.payload[1]


class Peer:
    """A connection to a listener, made from the address `source`."""

    def __init__(self, address, source=None, patience=20):
        self.socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(patience)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.connect(address)

    def push(self, data):
        self.socket.sendall(data)
        return self

    def take(self, size):
        """Exactly `size` bytes, or fewer at the end of the stream."""
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                break
            data += piece
        return data

    def reply(self):
        """The flags byte of the MPA Reply, or None if there is no reply."""
        try:
            head = self.take(20)
        except ConnectionError:
            return None
        if len(head) < 20 or head[:16] != REPLY_KEY:
            return None
        self.take(struct.unpack(">H", head[18:20])[0])
        return head[16]

    def frame(self):
        """The next FPDU, or None at the end of the stream."""
        try:
            head = self.take(2)
            if len(head) < 2:
                return None
            length = struct.unpack(">H", head)[0]
            rest = self.take(length + (-(2 + length)) % 4 + 4)
        except ConnectionError:
            return None
        return Frame(rest[:length]) if len(rest) >= length else None

    def connect(self, private_data=b"", **how):
        """The complete start-up; the first message is the Read that peer-to-peer mode requires."""
        self.push(request(private_data, **how))
        flags = self.reply()
        if flags is None or flags & 0x20:
            return False
        if how.get("revision", 2) > 1 and how.get("peer_to_peer", True):
            self.push(read_request(1, 1, 0, 0))
            self.frame()
        return True

    def ended(self):
        """Waits until the other side ends the connection. Returns False if that takes too long."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def abort(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()
