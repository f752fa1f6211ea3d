//! What the flags say about the way to the master, and to it.

use std::collections::BTreeMap;

use km_mesos_client::{Credentials, MasterAddress, Masters, Tls, tls::ClientIdentity};

use km_mesos_proto::{
    resources::Quantities,
    v1::{
        self,
        offer_filters::{MinAllocatableResources, ResourceQuantities},
    },
};

use super::{Flags, FlagsError};

impl Flags {
    /// Checks the flags without reading the files they name.
    pub(super) fn check_master(&self) -> Result<MasterAddress, FlagsError> {
        let bad = |flag, reason: &str| Err(FlagsError { flag, reason: reason.to_owned() });
        let address: MasterAddress = match self.mesos_master.parse() {
            Ok(address) => address,
            Err(error) => return bad("mesos-master", &format!("{error}")),
        };
        let tls = self.mesos_tls_ca_file.is_some();
        if matches!(address, MasterAddress::Https(_)) && !tls {
            return bad("mesos-tls-ca-file", "must name the authority's certificate, as --mesos-master says https");
        }
        if self.mesos_master.contains("http://") && tls {
            return bad("mesos-master", "says http, but --mesos-tls-ca-file asks for https");
        }
        match (&self.mesos_tls_cert_file, &self.mesos_tls_key_file) {
            (Some(_), None) => return bad("mesos-tls-key-file", "must be given with --mesos-tls-cert-file"),
            (None, Some(_)) => return bad("mesos-tls-cert-file", "must be given with --mesos-tls-key-file"),
            (Some(_), Some(_)) if !tls => {
                return bad("mesos-tls-ca-file", "must be given with --mesos-tls-cert-file");
            }
            _ => {}
        }
        let principal = &self.mesos_authentication_principal;
        if principal.is_empty() && self.mesos_authentication_secret_file.is_some() {
            return bad(
                "mesos-authentication-principal",
                "must be given with --mesos-authentication-secret-file: a secret alone says nothing",
            );
        }
        if principal.contains(':') {
            return bad(
                "mesos-authentication-principal",
                "must not hold ':', which ends it in HTTP basic authentication",
            );
        }
        Ok(address)
    }

    /// What offers of each role must hold: the same for all, or with `ROLE=` in front for that one.
    pub(super) fn offer_filters(&self) -> Result<BTreeMap<String, v1::OfferFilters>, FlagsError> {
        let text = self.mesos_min_allocatable_resources.trim();
        if text.is_empty() {
            return Ok(BTreeMap::new());
        }
        let roles = self.subscribed_roles();
        if !text.contains('=') {
            let filters = minima(text)?;
            return Ok(roles.into_iter().map(|role| (role, filters.clone())).collect());
        }
        let mut by_role = BTreeMap::new();
        for part in text.split(',') {
            let (role, text) = part.split_once('=').ok_or_else(|| bad_minima(format!("'{part}' names no role")))?;
            let role = role.trim();
            if !roles.iter().any(|known| known == role) {
                return Err(bad_minima(format!("'{role}' is none of the roles of offers: {}", roles.join(", "))));
            }
            if by_role.insert(role.to_owned(), minima(text)?).is_some() {
                return Err(bad_minima(format!("'{role}' is named twice")));
            }
        }
        Ok(by_role)
    }

    /// The masters, and how they are spoken to.
    ///
    /// # Errors
    /// A file is unusable.
    pub(crate) fn masters(&self) -> Result<Masters, FlagsError> {
        let address = self.check_master()?;
        let Some(authorities) = &self.mesos_tls_ca_file else { return Ok(Masters::from(address)) };
        let identity = self.mesos_tls_cert_file.as_deref().zip(self.mesos_tls_key_file.as_deref());
        let identity = identity.map(|(certificates, key)| ClientIdentity { certificates, key });
        let tls = Tls::load(authorities, identity).map_err(|error| {
            let is = |file: &Option<std::path::PathBuf>| file.as_ref() == Some(&error.path);
            let flag = match () {
                () if is(&self.mesos_tls_key_file) => "mesos-tls-key-file",
                () if is(&self.mesos_tls_cert_file) => "mesos-tls-cert-file",
                () => "mesos-tls-ca-file",
            };
            FlagsError { flag, reason: error.to_string() }
        })?;
        Ok(Masters::new(address, Some(tls)))
    }

    /// Who we are to the master; none when the flags name no principal.
    ///
    /// # Errors
    /// The secret can't be read.
    pub(crate) fn credentials(&self) -> Result<Option<Credentials>, FlagsError> {
        if self.mesos_authentication_principal.is_empty() {
            return Ok(None);
        }
        let secret = match &self.mesos_authentication_secret_file {
            Some(path) => std::fs::read_to_string(path).map_err(|error| FlagsError {
                flag: "mesos-authentication-secret-file",
                reason: format!("can't read {}: {error}", path.display()),
            })?,
            None => String::new(),
        };
        let principal = self.mesos_authentication_principal.clone();
        Ok(Some(Credentials { principal, secret: secret.trim_end_matches(['\r', '\n']).to_owned() }))
    }
}

fn bad_minima(reason: String) -> FlagsError {
    FlagsError { flag: "mesos-min-allocatable-resources", reason }
}

/// Reads amounts of which any one will do.
fn minima(text: &str) -> Result<v1::OfferFilters, FlagsError> {
    let minimum = |text: &str| {
        let amounts = Quantities::parse(text).map_err(|error| bad_minima(error.to_string()))?;
        if amounts.is_empty() {
            return Err(bad_minima(format!("'{text}' asks for nothing, expected such as 'cpus:0.5;mem:128'")));
        }
        let amounts = amounts.iter();
        let quantities =
            amounts.map(|(name, amount)| (name.to_owned(), v1::value::Scalar { value: amount.to_f64() })).collect();
        Ok(ResourceQuantities { quantities })
    };
    let quantities = text.split('|').map(minimum).collect::<Result<_, _>>()?;
    Ok(v1::OfferFilters { min_allocatable_resources: Some(MinAllocatableResources { quantities }) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_about_the_master_are_named() {
        let file = || Some("/none".into());
        let plain = Flags::default();
        let table: [(&str, Flags); 10] = [
            ("mesos-master", Flags { mesos_master: "m:port".into(), ..plain.clone() }),
            ("mesos-master", Flags { mesos_master: "zk://z:2181".into(), ..plain.clone() }),
            ("mesos-tls-ca-file", Flags { mesos_master: "https://m".into(), ..plain.clone() }),
            ("mesos-master", Flags { mesos_master: "http://m".into(), mesos_tls_ca_file: file(), ..plain.clone() }),
            ("mesos-tls-key-file", Flags { mesos_tls_cert_file: file(), ..plain.clone() }),
            ("mesos-tls-cert-file", Flags { mesos_tls_key_file: file(), ..plain.clone() }),
            ("mesos-tls-ca-file", Flags { mesos_tls_cert_file: file(), mesos_tls_key_file: file(), ..plain.clone() }),
            ("mesos-tls-ca-file", Flags { mesos_tls_ca_file: file(), ..plain.clone() }),
            ("mesos-authentication-principal", Flags { mesos_authentication_secret_file: file(), ..plain.clone() }),
            ("mesos-authentication-principal", Flags { mesos_authentication_principal: "a:b".into(), ..plain.clone() }),
        ];
        for (flag, flags) in table {
            assert_eq!(flags.masters().map(drop).map_err(|error| error.flag), Err(flag), "{flags:?}");
        }
        let unreadable = Flags {
            mesos_authentication_principal: "p".into(),
            mesos_authentication_secret_file: file(),
            ..plain.clone()
        };
        let error = unreadable.credentials().expect_err("there is no such file");
        assert_eq!(error.flag, "mesos-authentication-secret-file");
        assert!(plain.masters().is_ok() && plain.credentials() == Ok(None));
    }

    #[test]
    fn offers_may_have_to_hold_something() {
        let filters = |text: &str| {
            let roles = vec!["a".to_owned(), "b".to_owned()];
            let flags = Flags {
                mesos_min_allocatable_resources: text.into(),
                mesos_framework_roles: roles,
                ..Flags::default()
            };
            flags.offer_filters()
        };
        assert_eq!(filters(" "), Ok(BTreeMap::new()));
        let asked = filters("cpus:0.5;mem:128|cpus:4").expect("it is well-formed");
        let minima: Vec<Vec<(&str, f64)>> = asked["b"]
            .min_allocatable_resources
            .iter()
            .flat_map(|least| &least.quantities)
            .map(|one| one.quantities.iter().map(|(name, amount)| (name.as_str(), amount.value)).collect())
            .collect();
        assert_eq!(minima, [vec![("cpus", 0.5), ("mem", 128.0)], vec![("cpus", 4.0)]]);
        assert_eq!(asked.keys().collect::<Vec<_>>(), ["a", "b"]);
        let of_one = filters("b=cpus:2").expect("it is well-formed");
        assert_eq!(of_one.keys().collect::<Vec<_>>(), ["b"]);
        let of_each = filters("a=cpus:1|mem:64, b=cpus:2").expect("it is well-formed");
        let count = |role: &str| of_each[role].min_allocatable_resources.as_ref().map(|least| least.quantities.len());
        assert_eq!((count("a"), count("b")), (Some(2), Some(1)));
        for text in [
            "cpus",
            "cpus:many",
            "cpus:1|",
            "cpus:0",
            "c=cpus:1",
            "a=cpus:1,cpus:2",
            "a=cpus:1,a=cpus:2",
            "a=",
            "a=cpus:x",
        ] {
            assert_eq!(filters(text).map_err(|error| error.flag), Err("mesos-min-allocatable-resources"), "{text}");
        }
    }

    #[test]
    fn a_secret_ends_before_its_line_does() {
        let file = tempfile::NamedTempFile::new().and_then(|file| {
            std::fs::write(file.path(), "s e c r e t\r\n")?;
            Ok(file)
        });
        let file = file.expect("a temporary file");
        let flags = Flags {
            mesos_authentication_principal: "p".into(),
            mesos_authentication_secret_file: Some(file.path().to_owned()),
            ..Flags::default()
        };
        let credentials = Credentials { principal: "p".to_owned(), secret: "s e c r e t".to_owned() };
        assert_eq!(flags.credentials(), Ok(Some(credentials)));
    }
}
