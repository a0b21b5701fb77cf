package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/sasl"
)

var saramaScenes = map[string]func(scene){
	"produce": func(s scene) { answer(saramaProduce(s, ""), "") }, "consume": func(s scene) { answer(saramaConsume(s), "") },
	"transact": func(s scene) { answer(saramaProduce(s, s["id"]), "") }, "hold": saramaHold,
}

// scramClient is the code for SCRAM, which sarama leaves to its users.
type scramClient struct {
	scene   scene
	session sasl.Session
	done    bool
}

func (c *scramClient) Begin(string, string, string) error { return nil }
func (c *scramClient) Done() bool                         { return c.done }
func (c *scramClient) Step(challenge string) (string, error) {
	if c.session == nil {
		session, first, err := mechanism(c.scene).Authenticate(context.Background(), "")
		c.session = session
		return string(first), err
	}
	done, next, err := c.session.Challenge([]byte(challenge))
	c.done = done
	return string(next), err
}

type bearer string

func (b bearer) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(b)}, nil
}

func saramaConfig(s scene) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	config.Producer.Retry.Max, config.Metadata.Retry.Max = 2, 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	if mechanism := s["mechanism"]; mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = s["user"], s["password"]
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{scene: s} }
		config.Net.SASL.TokenProvider = bearer(s["token"])
	}
	if tls := s.tls(); tls != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, tls
	}
	return config
}

func saramaProduce(s scene, id string) error {
	config := saramaConfig(s)
	if id != "" {
		config.Producer.Idempotent, config.Producer.Transaction.ID = true, id
		config.Producer.RequiredAcks, config.Net.MaxOpenRequests = sarama.WaitForAll, 1
	}
	producer, err := sarama.NewSyncProducer([]string{s["bootstrap"]}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	if id != "" {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
	}
	if _, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: s["topic"], Value: sarama.StringEncoder(s["value"])}); err != nil || id == "" {
		return err
	}
	return producer.CommitTxn()
}

// found is a member of a group that waits for one record.
type found struct {
	value string
	done  context.CancelFunc
	seen  bool
}

func (f *found) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (f *found) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (f *found) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			s.MarkMessage(message, "")
			if string(message.Value) == f.value {
				f.seen = true
				f.done()
				return nil
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

func saramaConsume(s scene) error {
	group, err := sarama.NewConsumerGroup([]string{s["bootstrap"]}, s["group"], saramaConfig(s))
	if err != nil {
		return err
	}
	defer group.Close()
	ctx, cancel := soon()
	member := &found{value: s["value"], done: cancel}
	defer cancel()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{s["topic"]}, member); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if !member.seen {
		return errors.New("the record did not come")
	}
	return nil
}

func saramaHold(s scene) {
	producer, err := sarama.NewSyncProducer([]string{s["bootstrap"]}, saramaConfig(s))
	if err != nil {
		answer(err, "0")
		return
	}
	defer producer.Close()
	hold(s, func() error {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: s["topic"], Value: sarama.StringEncoder("x")})
		return err
	})
}
