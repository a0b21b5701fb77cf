package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Longest wait for what must come, and how long a scene waits for what must not come.
const (
	patience = 15 * time.Second
	silence  = 400 * time.Millisecond
)

// player is a scene with one server.
type player struct {
	server *server
	node   int // to which it connects
	conns  []*client
	rows   map[string]string
	order  []string
}

func (p *player) leave() {
	for _, one := range p.conns {
		one.Close()
	}
}

// say records a value. What differs between two runs of one server is replaced.
func (p *player) say(label string, format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	for _, hide := range []struct{ what, with string }{{p.server.id, "SERVER"}, {p.server.name, "NAME"}, {p.server.address, "ADDRESS"}} {
		if hide.what != "" {
			text = strings.ReplaceAll(text, hide.what, hide.with)
		}
	}
	if p.server.id != "" {
		label = strings.ReplaceAll(label, p.server.id, "SERVER")
	}
	if _, is := p.rows[label]; is {
		fail("the label %q is used twice", label)
	}
	p.rows[label] = text
	p.order = append(p.order, label)
}

// client is a connection that collects the errors that it is told.
type client struct {
	*nats.Conn
	player *player
	mutex  sync.Mutex
	told   []string
	seen   int // errors of which flushed has spoken
	closed chan struct{}
}

func (p *player) dial(options ...nats.Option) (*client, error) {
	c := &client{player: p, closed: make(chan struct{})}
	options = append([]nats.Option{
		nats.NoReconnect(), nats.Timeout(patience), nats.CustomInboxPrefix("_INBOX"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.mutex.Lock()
			defer c.mutex.Unlock()
			c.told = append(c.told, err.Error())
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
	}, options...)
	nc, err := nats.Connect("nats://"+p.server.addresses[p.node], options...)
	if err != nil {
		return nil, err
	}
	c.Conn = nc
	p.conns = append(p.conns, c)
	return c, nil
}

// as connects as a user with the password p.
func (p *player) as(user string, options ...nats.Option) *client {
	c, err := p.dial(append(options, nats.UserInfo(user, "p"))...)
	ok(err, "login of "+user)
	return c
}

// login says whether a client is let in, and otherwise the error.
func (p *player) login(label string, options ...nats.Option) {
	c, err := p.dial(options...)
	if err != nil {
		p.say(label, "refused: %v", err)
		return
	}
	p.say(label, "let in, %s", c.flushed())
}

// flushed returns what the client was told until the server had done all it was asked for.
func (c *client) flushed() string {
	if err := c.FlushTimeout(patience); err != nil {
		select {
		case <-c.closed:
			return fmt.Sprintf("closed: %v", c.LastError())
		case <-time.After(patience):
			return fmt.Sprintf("flush: %v", err)
		}
	}
	// Handlers run on their own: an error counts as told when the client has it.
	last := c.LastError()
	for end := time.Now().Add(patience); last != nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		c.mutex.Lock()
		is := len(c.told) > 0 && c.told[len(c.told)-1] == last.Error()
		c.mutex.Unlock()
		if is {
			break
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	text := strings.Join(c.told[c.seen:], "; ")
	c.seen = len(c.told)
	if text == "" {
		return "no error"
	}
	return text
}

// ends waits until the server has closed the connection, and returns why.
func (c *client) ends() string {
	select {
	case <-c.closed:
		return fmt.Sprintf("closed: %v", c.LastError())
	case <-time.After(patience):
		return "stays"
	}
}

// sub subscribes. A queue follows the subject after a blank.
func (c *client) sub(subject string) *nats.Subscription {
	words := strings.Fields(subject)
	if len(words) == 2 {
		return must(c.QueueSubscribeSync(words[0], words[1]))
	}
	return must(c.SubscribeSync(subject))
}

// heard returns what has come to a subscription by now.
func (c *client) heard(sub *nats.Subscription) string {
	ok(c.FlushTimeout(patience), "flush")
	var out []string
	for {
		count, _, err := sub.Pending()
		if err != nil || count == 0 {
			break
		}
		out = append(out, described(must(sub.NextMsg(patience))))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func described(m *nats.Msg) string {
	text := m.Subject + "=" + string(m.Data)
	var names []string
	for name := range m.Header {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		text += fmt.Sprintf(" {%s: %s}", name, strings.Join(m.Header[name], ","))
	}
	return text
}

// sends publishes, and returns what the client is told.
func (c *client) sends(subject, text string) string {
	if err := c.Publish(subject, []byte(text)); err != nil {
		return err.Error()
	}
	return c.flushed()
}

// asks sends a request, and returns the answer.
func (c *client) asks(subject, text string) string {
	answer, err := c.Request(subject, []byte(text), patience)
	if err != nil {
		return err.Error()
	}
	return string(answer.Data)
}

// asksOnce is asks for what may have no answer.
func (c *client) asksOnce(subject, text string) string {
	answer, err := c.Request(subject, []byte(text), silence)
	if errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) {
		return "no answer"
	}
	if err != nil {
		return err.Error()
	}
	return string(answer.Data)
}

// serves answers requests with a text.
func (c *client) serves(subject string, answer func(*nats.Msg)) {
	must(c.Subscribe(subject, answer))
	ok(c.FlushTimeout(patience), "flush")
}

// shape describes a JSON document: its fields and the types of their values, sorted. Elements of lists are
// described together.
func shape(text []byte) string {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return fmt.Sprintf("no JSON: %s", text)
	}
	found := map[string]bool{}
	collect("", value, found)
	var out []string
	for path := range found {
		out = append(out, path)
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

func collect(path string, value any, found map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			found[path+"{}"] = true
		}
		for name, one := range value {
			collect(path+"."+name, one, found)
		}
	case []any:
		if len(value) == 0 {
			found[path+"[]"] = true
		}
		for _, one := range value {
			collect(path+"[]", one, found)
		}
	case string:
		found[path+":text"] = true
	case float64:
		found[path+":number"] = true
	case bool:
		found[path+":truth"] = true
	case nil:
		found[path+":null"] = true
	}
}

// without leaves out of a shape what matches.
func without(shape, pattern string) string {
	hidden := regexp.MustCompile(pattern)
	var out []string
	for _, path := range strings.Fields(shape) {
		if !hidden.MatchString(path) {
			out = append(out, path)
		}
	}
	return strings.Join(out, " ")
}

// field returns a value in a JSON document, by the names on the way.
func field(text string, names ...string) any {
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return "no JSON: " + text
	}
	for _, name := range names {
		object, is := value.(map[string]any)
		if !is {
			return nil
		}
		value = object[name]
	}
	return value
}

func sortTexts(list []string) { sort.Strings(list) }
