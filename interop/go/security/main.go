// One client of interop/python/security_clients.py: security franz|sarama. A line of standard input is a
// scene, its words separated by tabs; the answer is a line, "ok" or "error NAME text". All languages share
// this.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
)

// A scene that takes longer has failed.
const sceneMax = 20 * time.Second

// scene is what one line asks for.
type scene map[string]string

func (s scene) seconds() time.Duration {
	n, _ := strconv.Atoi(s["seconds"])
	return time.Duration(n) * time.Second
}

func (s scene) tls() *tls.Config {
	if s["ca"] == "" {
		return nil
	}
	pem, err := os.ReadFile(s["ca"])
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots}
	if s["cert"] != "" {
		pair, err := tls.LoadX509KeyPair(s["cert"], s["key"])
		if err != nil {
			panic(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

var errorName = regexp.MustCompile(`[A-Z]+(_[A-Z]+)*_(AUTHORIZATION|AUTHENTICATION)_FAILED`)

// name returns Kafka's name of an error.
func name(err error) string {
	var franz *kerr.Error
	var number sarama.KError
	switch {
	case errors.As(err, &franz):
		return franz.Message
	case errors.As(err, &number):
		return kerr.ErrorForCode(int16(number)).(*kerr.Error).Message
	}
	if found := errorName.FindString(err.Error()); found != "" {
		return found
	}
	// sarama reports some errors as texts only.
	for code := int16(1); code < 120; code++ {
		if text := sarama.KError(code).Error(); !strings.HasPrefix(text, "Unknown error") && strings.Contains(err.Error(), text) {
			return kerr.ErrorForCode(code).(*kerr.Error).Message
		}
	}
	return "OTHER"
}

func answer(err error, more string) {
	if err == nil {
		fmt.Println(strings.TrimSpace("ok " + more))
	} else {
		fmt.Printf("error %s %s %s\n", name(err), more, strings.Join(strings.Fields(err.Error()), " "))
	}
}

// hold produces until the time is over, or the server no longer lets it, and says when the first record is
// stored.
func hold(s scene, produce func() error) {
	count, end := 0, time.Now().Add(s.seconds())
	var err error
	for ; time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = produce(); err != nil {
			break
		}
		if count++; count == 1 {
			fmt.Println("works")
		}
	}
	answer(err, strconv.Itoa(count))
}

func main() {
	clients := map[string]map[string]func(scene){"franz": franzScenes, "sarama": saramaScenes}
	scenes := clients[os.Args[1]]
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		s := scene{}
		for _, word := range strings.Split(lines.Text(), "\t") {
			key, value, _ := strings.Cut(word, "=")
			s[key] = value
		}
		scenes[s["do"]](s)
	}
}
