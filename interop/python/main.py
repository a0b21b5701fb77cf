"""The Python clients: confluent-kafka, kafka-python, aiokafka. Run by interop/run.sh."""
import sys
import admin, harness, scenarios
from client_aiokafka import Aio
from client_confluent import Confluent
from client_kafka_python import KafkaPython

clients = [Confluent(), KafkaPython(), Aio()]
for client in clients:
    scenarios.run_all(client)
admin.run_all(*clients)
for client in clients:
    client.close()
sys.exit(1 if harness.failed else 0)
