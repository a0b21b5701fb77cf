package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

// server is a nats-server, or the nodes of a tailrace.
type server struct {
	kind      string   // nats-server or tailrace
	address   string   // of the first node
	addresses []string // of all nodes
	id, name  string   // as INFO says
	folder    string
	world     string
	process   []*exec.Cmd
	operator  *operator
}

// ports returns free ports. They are below the range that the kernel gives to connections.
func ports(count int) []int {
	var out []int
	for port := 11000 + os.Getpid()%9000; len(out) < count; port++ {
		if taken[port] {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			taken[port] = true
			out = append(out, port)
		}
	}
	return out
}

var taken = map[int]bool{}

func at(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func write(folder, name, text string) string {
	path := filepath.Join(folder, name)
	ok(os.MkdirAll(folder, 0o700), "folder")
	ok(os.WriteFile(path, []byte(text), 0o600), "write")
	return path
}

// start starts a process whose output goes to a log, and which hears nothing of TAILRACE_ variables.
func (s *server) start(program string, arguments ...string) {
	log := must(os.Create(filepath.Join(s.folder, fmt.Sprintf("log%d", len(s.process)+1))))
	command := exec.Command(program, arguments...)
	command.Stdout, command.Stderr = log, log
	for _, one := range os.Environ() {
		if !strings.HasPrefix(one, "TAILRACE_") {
			command.Env = append(command.Env, one)
		}
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	ok(command.Start(), "start of "+program)
	s.process = append(s.process, command)
}

func (s *server) stop() {
	for _, one := range s.process {
		_ = one.Process.Kill()
		_ = one.Wait()
	}
}

// wait returns when every node has let a client in.
func (s *server) wait(options ...nats.Option) {
	for i, address := range s.addresses {
		var last error
		end := time.Now().Add(2 * time.Minute)
		for {
			var nc *nats.Conn
			if nc, last = nats.Connect("nats://"+address, append([]nats.Option{nats.NoReconnect(), nats.Timeout(patience)}, options...)...); last == nil {
				if i == 0 {
					s.id, s.name = nc.ConnectedServerId(), nc.ConnectedServerName()
				}
				nc.Close()
				break
			}
			if time.Now().After(end) {
				log, _ := os.ReadFile(filepath.Join(s.folder, fmt.Sprintf("log%d", i+1)))
				fail("%s does not start: %v\n%s", s.kind, last, log[max(0, len(log)-2000):])
			}
			time.Sleep(30 * time.Millisecond)
		}
	}
	s.address = s.addresses[0]
}

func newServer(kind, world, folder string) *server {
	s := &server{kind: kind, world: world, folder: filepath.Join(folder, world+"-"+kind)}
	ok(os.MkdirAll(s.folder, 0o700), "folder")
	return s
}

// startNats starts a nats-server with a configuration.
func startNats(world, folder, text string) *server {
	s := newServer("nats-server", world, folder)
	free := ports(2)
	s.addresses = []string{at(free[0])}
	text = fmt.Sprintf("listen: %q\nserver_name: beside\nwebsocket { listen: %q, no_tls: true }\n%s", at(free[0]), at(free[1]), text)
	s.start(os.Getenv("NATS_SERVER_BIN"), "-c", write(s.folder, "conf", text))
	return s
}

// startTailrace starts nodes with settings.
func startTailrace(world, folder string, nodes int, settings ...string) *server {
	s := newServer("tailrace", world, folder)
	free := ports(4 * nodes)
	for n := range nodes {
		mine := free[4*n:]
		s.addresses = append(s.addresses, at(mine[1]))
		words := []string{"serve", "--data-dir", filepath.Join(s.folder, fmt.Sprintf("data%d", n)),
			"--kafka", at(mine[0]), "--nats", at(mine[1]), "--http", at(mine[2])}
		if nodes > 1 {
			words = append(words, "--node-id", fmt.Sprint(n+1), "--cluster-listen", at(mine[3]), "--set", fmt.Sprintf("default.replication.factor=%d", nodes))
			if n > 0 {
				words = append(words, "--seed", at(free[3]))
			}
		}
		for _, one := range settings {
			words = append(words, "--set", one)
		}
		s.start(os.Getenv("TAILRACE_BIN"), words...)
	}
	return s
}

func worlds() []string {
	return []string{"accounts", "users", "ending", "operator", "nodes", "callout", "sealed", "certificates"}
}

// startPair starts both servers with the same users and accounts.
func startPair(world, folder string) []*server {
	switch world {
	case "accounts", "ending":
		return configuredPair(world, folder, accountsConf, accountsToml)
	case "users":
		return configuredPair(world, folder, usersConf(), usersToml())
	case "operator":
		return operatorPair(world, folder, 1)
	case "nodes":
		return operatorPair(world, folder, 3)
	case "callout", "sealed":
		return calloutPair(world, folder, world == "sealed")
	case "certificates":
		return certificatesPair(world, folder)
	}
	panic(world)
}

func configuredPair(world, folder, conf, toml string) []*server {
	tailrace := newServer("tailrace", world, folder)
	path := write(tailrace.folder, "users.toml", toml)
	pair := []*server{
		startNats(world, folder, conf),
		startTailrace(world, folder, 1, "tailrace.nats.users.file="+path, "tailrace.nats.system.account=SYS"),
	}
	for _, one := range pair {
		one.wait(nats.UserInfo("sys", "p"))
	}
	return pair
}

// raw sends a CONNECT and more, and returns the lines that come until the answer to PING, or the end.
func raw(address, connect, more string) string {
	nc := must(net.Dial("tcp", address))
	defer nc.Close()
	ok(nc.SetDeadline(time.Now().Add(patience)), "deadline")
	lines := bufio.NewReader(nc)
	must(lines.ReadString('\n'))
	must(fmt.Fprintf(nc, "CONNECT %s\r\n%s", connect, more))
	var out []string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return strings.Join(append(out, "closed"), " ")
		}
		line = strings.TrimSpace(line)
		if line == "PONG" {
			return strings.Join(append(out, line), " ")
		}
		if !strings.HasPrefix(line, "INFO") {
			out = append(out, line)
		}
	}
}
