//! The options that name the user, and the source of the password.

use std::path::{Path, PathBuf};

use clap::{Arg, Args};

use super::login::Login;
use super::mechanism::SaslMechanism;
use super::password::{Password, VARIABLE};
use crate::client::ClientError;

/// The file name that stands for the terminal.
pub(crate) const TERMINAL: &str = "-";
/// What to do if there is no terminal. These names are the same for every verb.
const WITHOUT_TERMINAL: &str = "name a file with --sasl-password-file, or set TAILRACE_PASSWORD";

/// The ids of two options, for [`second_user_name`] and [`second_password_name`].
pub(crate) const LOGIN_USER: &str = "login_user";
pub(crate) const LOGIN_PASSWORD_FILE: &str = "login_password_file";

/// Options of the verbs that connect to the Kafka listener. Verbs that use `--user` or `--password-file` for
/// something else keep only the second name of the option here.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SaslArguments {
    /// Log in as this user
    #[arg(long = "user", visible_alias = "sasl-user", value_name = "NAME", value_parser = user_name)]
    login_user: Option<String>,
    /// File with the user's password on one line, or - to be asked for it [default: the variable
    /// TAILRACE_PASSWORD, or - without it]
    #[arg(
        long = "password-file",
        visible_alias = "sasl-password-file",
        value_name = "FILE",
        requires = "login_user"
    )]
    login_password_file: Option<PathBuf>,
    /// How to log in: scram-sha-256, scram-sha-512 or plain [default: scram-sha-256]
    #[arg(
        long,
        value_name = "NAME",
        value_enum,
        hide_possible_values = true,
        ignore_case = true,
        requires = "login_user"
    )]
    sasl_mechanism: Option<SaslMechanism>,
    /// The user is the id of a delegation token, and the password is its HMAC
    #[arg(long, requires = "login_user")]
    sasl_token: bool,
    /// Let plain show the password to the network: without TLS, to another machine
    #[arg(long, requires = "sasl_mechanism")]
    plain_without_tls: bool,
}

/// Frees `--user` for another option of a verb: the login is `--sasl-user` there.
pub(crate) fn second_user_name(argument: Arg) -> Arg {
    argument.long("sasl-user").visible_alias(None::<&'static str>)
}

/// Frees `--password-file` for another option of a verb: the login has `--sasl-password-file` there.
pub(crate) fn second_password_name(argument: Arg) -> Arg {
    argument.long("sasl-password-file").visible_alias(None::<&'static str>)
}

impl SaslArguments {
    /// Reads the password. `None` if no user was named.
    pub(crate) fn load(&self) -> Result<Option<Login>, ClientError> {
        let Some(user) = self.login_user.clone() else { return Ok(None) };
        let password = self.password(&user)?;
        let mechanism = self.sasl_mechanism.unwrap_or(SaslMechanism::ScramSha256);
        let (is_token, plain_without_tls) = (self.sasl_token, self.plain_without_tls);
        if is_token && mechanism == SaslMechanism::Plain {
            return Err(ClientError::TokenWithPlain);
        }
        Ok(Some(Login { user, mechanism, password, is_token, plain_without_tls }))
    }

    fn password(&self, user: &str) -> Result<Password, ClientError> {
        let wrong = |place: String| move |reason| ClientError::Password { place, reason };
        match &self.login_password_file {
            Some(path) if path != Path::new(TERMINAL) => {
                Password::from_file(path).map_err(wrong(path.display().to_string()))
            }
            Some(_) => ask(user),
            None => match Password::from_environment().map_err(wrong(VARIABLE.to_owned()))? {
                Some(password) => Ok(password),
                None => ask(user),
            },
        }
    }
}

fn ask(user: &str) -> Result<Password, ClientError> {
    Password::ask(&format!("password of {user}: "), WITHOUT_TERMINAL)
        .map_err(|reason| ClientError::Password { place: format!("the password of '{user}'"), reason })
}

/// Names are not empty, since SCRAM and PLAIN cannot express that. They have no control characters, since the
/// prompt and errors show them.
fn user_name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("it is empty".to_owned()),
        _ if text.chars().any(char::is_control) => Err("it has a control character".to_owned()),
        _ => Ok(text.to_owned()),
    }
}
