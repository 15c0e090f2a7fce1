package proxy

import (
	"encoding/binary"
	"net"
	"syscall"
)

// States of a connection whose other side sends no more (net/tcp_states.h of Linux).
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

// hungUp reports whether the client of a TCP connection has hung up, also while there is
// more to read. A client that only closes its sending side has hung up for net/http too.
func hungUp(conn net.Conn) bool {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false
	}
	var state byte
	raw, err := tcp.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			var info [4]byte // the first bytes of struct tcp_info: its first member is the state
			if n, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO); err == nil {
				binary.NativeEndian.PutUint32(info[:], uint32(n))
				state = info[0]
			}
		})
	}
	return err != nil || state == tcpClose || state == tcpCloseWait // an error means that the connection is closed
}
