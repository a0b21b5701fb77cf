//! The settings, without a controller.

mod configuration_layers;
mod kafka_config_facts;
mod listeners;
