package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ---- the machine itself ----

type echo struct{}

func echoAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go io.Copy(conn, conn)
		}
	}()
	return listener.Addr().String()
}

func (echo) greet(net.Conn, *bufio.Reader) error { return nil }
func (echo) request(int) []byte                  { return []byte{'x'} }
func (echo) answer(_ net.Conn, in *bufio.Reader) error {
	_, err := in.ReadByte()
	return err
}

// ---- Kafka ----

func kafkaFrame(key, version int16, number int, body []byte) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(10+len(body)))
	frame = binary.BigEndian.AppendUint16(frame, uint16(key))
	frame = binary.BigEndian.AppendUint16(frame, uint16(version))
	frame = binary.BigEndian.AppendUint32(frame, uint32(number))
	frame = append(frame, 0xff, 0xff) // no client id
	return append(frame, body...)
}

func kafkaAnswer(in *bufio.Reader) error {
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return err
	}
	_, err := in.Discard(int(binary.BigEndian.Uint32(length[:])))
	return err
}

func text(out []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(out, uint16(len(text))), text...)
}

// loginUser is a name and a password, with a colon between them, with which probes of Kafka and NATS log in.
// Empty: no login.
var loginUser string

// kafkaLogin logs in with PLAIN.
func kafkaLogin(conn io.Writer, in *bufio.Reader) error {
	if loginUser == "" {
		return nil
	}
	token := "\x00" + strings.Replace(loginUser, ":", "\x00", 1)
	for _, frame := range [][]byte{
		kafkaFrame(17, 1, 0, text(nil, "PLAIN")),
		kafkaFrame(36, 0, 0, append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...)),
	} {
		if _, err := conn.Write(frame); err != nil {
			return err
		}
		if err := kafkaAnswer(in); err != nil {
			return err
		}
	}
	return nil
}

// kafkaAsk asks for the versions of all APIs, then for the topic's metadata, and so on.
type kafkaAsk struct{ topic string }

func (kafkaAsk) greet(conn net.Conn, in *bufio.Reader) error { return kafkaLogin(conn, in) }
func (kafkaAsk) answer(_ net.Conn, in *bufio.Reader) error   { return kafkaAnswer(in) }
func (a kafkaAsk) request(number int) []byte {
	if number%2 == 0 {
		return kafkaFrame(18, 0, number, nil)
	}
	return kafkaFrame(3, 1, number, text([]byte{0, 0, 0, 1}, a.topic))
}

// kafkaWrite appends a record with acks=1, then fetches the first one, and so on.
type kafkaWrite struct{ topic string }

func (kafkaWrite) greet(conn net.Conn, in *bufio.Reader) error { return kafkaLogin(conn, in) }
func (kafkaWrite) answer(_ net.Conn, in *bufio.Reader) error   { return kafkaAnswer(in) }
func (w kafkaWrite) request(number int) []byte {
	if number%2 == 0 {
		body := []byte{0xff, 0xff, 0, 1, 0, 0, 0x75, 0x30, 0, 0, 0, 1} // no transactional id, acks, 30 s, one topic
		body = append(text(body, w.topic), 0, 0, 0, 1, 0, 0, 0, 0)     // one partition, 0
		batch := recordBatch([]byte("probe"))
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(batch))), batch...)
		return kafkaFrame(0, 3, number, body)
	}
	body := []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1} // a consumer, no wait, at most 1 KiB
	body = append(text(body, w.topic), 0, 0, 0, 1, 0, 0, 0, 0)
	body = append(body, make([]byte, 8)...) // offset 0
	return kafkaFrame(1, 4, number, append(body, 0, 0, 4, 0))
}

func recordBatch(value []byte) []byte {
	record := append([]byte{0, 0, 0, 1, byte(len(value) << 1)}, value...) // no key: -1 as a varint
	record = append(record, 0)
	records := append([]byte{byte(len(record) << 1)}, record...)
	now := uint64(time.Now().UnixMilli())
	tail := binary.BigEndian.AppendUint64(make([]byte, 6), now) // attributes, last offset delta
	tail = binary.BigEndian.AppendUint64(tail, now)
	tail = append(tail, bytes.Repeat([]byte{0xff}, 14)...) // no producer
	tail = append(binary.BigEndian.AppendUint32(tail, 1), records...)
	batch := binary.BigEndian.AppendUint32(make([]byte, 8), uint32(len(tail)+9))
	batch = append(batch, 0xff, 0xff, 0xff, 0xff, 2)
	batch = binary.BigEndian.AppendUint32(batch, crc32.Checksum(tail, crc32.MakeTable(crc32.Castagnoli)))
	return append(batch, tail...)
}

// ---- NATS ----

func connect() string {
	login := ""
	if name, password, found := strings.Cut(loginUser, ":"); found {
		login = fmt.Sprintf(",\"user\":%q,\"pass\":%q", name, password)
	}
	return "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\"protocol\":0" + login + "}\r\n"
}

// natsLine reads a line that is not part of a message, and answers the server's PING.
func natsLine(conn io.Writer, in *bufio.Reader) (string, error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		line = strings.TrimRight(line, "\r\n")
		switch {
		case line == "PING":
			if _, err := io.WriteString(conn, "PONG\r\n"); err != nil {
				return "", err
			}
		case strings.HasPrefix(line, "INFO "):
		case strings.HasPrefix(line, "-ERR"):
			return "", fmt.Errorf("the server says %s", line)
		default:
			return line, nil
		}
	}
}

func natsGreet(conn io.Writer, in *bufio.Reader, more string) error {
	if _, err := io.WriteString(conn, connect()+more+"PING\r\n"); err != nil {
		return err
	}
	line, err := natsLine(conn, in)
	if err == nil && line != "PONG" {
		return fmt.Errorf("greeted with %q", line)
	}
	return err
}

type natsPing struct{}

func (*natsPing) greet(conn net.Conn, in *bufio.Reader) error { return natsGreet(conn, in, "") }
func (*natsPing) request(int) []byte                          { return []byte("PING\r\n") }
func (*natsPing) answer(conn net.Conn, in *bufio.Reader) error {
	_, err := natsLine(conn, in)
	return err
}

// natsEcho publishes to a subject that it has subscribed to itself.
type natsEcho struct{}

func (*natsEcho) greet(conn net.Conn, in *bufio.Reader) error {
	return natsGreet(conn, in, "SUB probe.echo 1\r\n")
}
func (*natsEcho) request(int) []byte { return []byte("PUB probe.echo 5\r\nprobe\r\n") }
func (*natsEcho) answer(conn net.Conn, in *bufio.Reader) error {
	line, err := natsLine(conn, in)
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
	if err != nil {
		return fmt.Errorf("no message: %q", line)
	}
	_, err = in.Discard(size + 2)
	return err
}

// ---- HTTP ----

type httpGet struct{}

func (httpGet) greet(net.Conn, *bufio.Reader) error { return nil }
func (httpGet) request(int) []byte                  { return []byte("GET /healthz HTTP/1.1\r\nHost: probe\r\n\r\n") }
func (httpGet) answer(_ net.Conn, in *bufio.Reader) error {
	length := 0
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			_, err = in.Discard(length)
			return err
		}
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "content-length") {
			length, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
}

// webSocket is NATS's PING in frames.
type webSocket struct{ inner *bufio.Reader }

func (w *webSocket) greet(conn net.Conn, in *bufio.Reader) error {
	_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: probe\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if err != nil {
		return err
	}
	status, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.Contains(status, " 101 ") {
		return fmt.Errorf("no WebSocket: %q", status)
	}
	for line := ""; line != "\r\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			return err
		}
	}
	w.inner = bufio.NewReader(&deframer{in: in})
	return natsGreet(framer{conn}, w.inner, "")
}
func (w *webSocket) request(int) []byte { return frame([]byte("PING\r\n")) }
func (w *webSocket) answer(conn net.Conn, _ *bufio.Reader) error {
	_, err := natsLine(framer{conn}, w.inner)
	return err
}

// frame is a masked binary frame; the mask consists of zeros, which is legal and changes nothing.
func frame(payload []byte) []byte {
	out := []byte{0x82, 0x80 | 126, byte(len(payload) >> 8), byte(len(payload)), 0, 0, 0, 0}
	if len(payload) < 126 {
		out = []byte{0x82, 0x80 | byte(len(payload)), 0, 0, 0, 0}
	}
	return append(out, payload...)
}

type framer struct{ conn net.Conn }

func (f framer) Write(payload []byte) (int, error) {
	if _, err := f.conn.Write(frame(payload)); err != nil {
		return 0, err
	}
	return len(payload), nil
}

// deframer yields the content of data frames.
type deframer struct {
	in   *bufio.Reader
	left int
}

func (d *deframer) Read(into []byte) (int, error) {
	for d.left == 0 {
		var head [2]byte
		if _, err := io.ReadFull(d.in, head[:]); err != nil {
			return 0, err
		}
		size := int(head[1] & 127)
		if size >= 126 {
			more := make([]byte, 2+6*(size-126))
			if _, err := io.ReadFull(d.in, more); err != nil {
				return 0, err
			}
			size = 0
			for _, one := range more {
				size = size<<8 | int(one)
			}
		}
		switch head[0] & 15 {
		case 8:
			return 0, io.EOF
		case 9, 10:
			if _, err := d.in.Discard(size); err != nil {
				return 0, err
			}
		default:
			d.left = size
		}
	}
	n, err := d.in.Read(into[:min(len(into), d.left)])
	d.left -= n
	return n, err
}
