package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// waitMax bounds every answer. A server that is silent for this long has failed.
const waitMax = 60 * time.Second

// conn is one connection, one request at a time.
type conn struct {
	net.Conn
	formatter   *kmsg.RequestFormatter
	correlation int32
}

func dial(address string) (*conn, error) {
	c, err := net.DialTimeout("tcp", address, waitMax)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("groupsload"))}, nil
}

// ask sends a request and waits for its answer.
func (c *conn) ask(request kmsg.Request, version int16) (kmsg.Response, error) {
	if err := c.SetDeadline(time.Now().Add(waitMax)); err != nil {
		return nil, err
	}
	request.SetVersion(version)
	c.correlation++
	if err := c.send(request, c.correlation); err != nil {
		return nil, err
	}
	return c.receive(request, c.correlation)
}

// send writes a request whose version is set.
func (c *conn) send(request kmsg.Request, correlation int32) error {
	_, err := c.Write(c.formatter.AppendRequest(nil, request, correlation))
	return err
}

// receive reads the answer to a request of this kind and version.
func (c *conn) receive(request kmsg.Request, correlation int32) (kmsg.Response, error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	if len(body) < 5 || int32(binary.BigEndian.Uint32(body)) != correlation {
		return nil, errors.New("an answer to another request")
	}
	body = body[4:]
	if request.IsFlexible() {
		if body[0] != 0 {
			return nil, errors.New("tags in the header of an answer")
		}
		body = body[1:]
	}
	response := request.ResponseKind()
	response.SetVersion(request.GetVersion())
	return response, response.ReadFrom(body)
}

// failed turns a code into an error.
func failed(doing string, code int16) error {
	if err := kerr.ErrorForCode(code); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// loading reports whether a coordinator is not available yet.
func loading(code int16) bool {
	err := kerr.ErrorForCode(code)
	return errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.NotCoordinator)
}

// awaitCoordinator returns once the group has a coordinator.
func awaitCoordinator(c *conn, group string) error {
	for end := time.Now().Add(waitMax); ; time.Sleep(50 * time.Millisecond) {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorKeys = []string{group}
		response, err := c.ask(r, 4)
		if err != nil {
			return err
		}
		code := response.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode
		if code == 0 {
			break
		}
		if time.Now().After(end) {
			return failed("find the coordinator", code)
		}
	}
	for end := time.Now().Add(waitMax); ; time.Sleep(50 * time.Millisecond) {
		r := kmsg.NewPtrHeartbeatRequest()
		r.Group, r.MemberID, r.Generation = group, "nobody", 1
		response, err := c.ask(r, 4)
		if err != nil {
			return err
		}
		if !loading(response.(*kmsg.HeartbeatResponse).ErrorCode) {
			return nil
		}
		if time.Now().After(end) {
			return errors.New("the coordinator does not finish loading")
		}
	}
}
