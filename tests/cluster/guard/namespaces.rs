//! Who may opt a namespace in and out: whoever may `use` the policies, through whatever path.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::checks;
use super::ground::{Ground, Site, refused};

checks![
    the_opt_in_needs_the_verb_use,
    a_change_of_policy_needs_use_of_the_old_and_the_new_one,
    status_and_finalize_are_no_way_around,
    a_namespace_is_not_created_opted_in_without_use,
    the_gang_label_needs_use_of_any_policy,
    allow_exempt_needs_use_of_the_policy_of_the_namespace,
    an_empty_value_is_an_opt_in_too,
    other_labels_change_freely,
    protected_namespaces_are_never_opted_in,
];

const DISPATCH: &str = "portcullis.dev/dispatch";

fn label(key: &str, value: Value) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

/// Lets a user do everything with namespaces, and use these policies (`None`: all of them).
async fn grant(ground: &Ground, user: &str, policies: Option<&[&str]>) -> Result<()> {
    let namespaces = ["namespaces", "namespaces/status", "namespaces/finalize"];
    let mut rules = vec![json!({"apiGroups": [""], "resources": namespaces, "verbs": ["*"]})];
    let mut use_rule =
        json!({"apiGroups": ["portcullis.dev"], "resources": ["dispatchpolicies"], "verbs": ["use"]});
    match policies {
        Some([]) => {}
        Some(names) => {
            use_rule["resourceNames"] = json!(names);
            rules.push(use_rule);
        }
        None => rules.push(use_rule),
    }
    let name = format!("{}-{user}", ground.namespace);
    ground.role(&name, json!(rules)).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": user}],
    });
    ground.admin().create("clusterrolebindings", &binding).await?;
    ground
        .await_right(user, json!({"verb": "patch", "resource": "namespaces"}))
        .await
}

async fn the_opt_in_needs_the_verb_use(site: Site) -> Result<()> {
    let ground = site.plain("opt-in").await?;
    let (nobody, user) = (site.name("no-use"), site.name("uses-a"));
    grant(&ground, &nobody, Some(&[])).await?;
    grant(&ground, &user, Some(&["a"])).await?;
    let opt_in = label(DISPATCH, json!("a"));
    let opt_out = label(DISPATCH, Value::Null);
    let sentence = "needs the verb use on dispatchpolicies.portcullis.dev a,";
    refused(
        ground
            .user(&nobody)
            .patch("namespaces", &ground.namespace, "", &opt_in)
            .await,
        sentence,
    )?;
    ground
        .user(&user)
        .patch("namespaces", &ground.namespace, "", &opt_in)
        .await?;
    refused(
        ground
            .user(&nobody)
            .patch("namespaces", &ground.namespace, "", &opt_out)
            .await,
        sentence,
    )?;
    let all_gone = json!({"metadata": {"labels": null}});
    refused(
        ground
            .user(&nobody)
            .patch("namespaces", &ground.namespace, "", &all_gone)
            .await,
        sentence,
    )?;
    ground
        .user(&user)
        .patch("namespaces", &ground.namespace, "", &opt_out)
        .await?;
    Ok(())
}

async fn a_change_of_policy_needs_use_of_the_old_and_the_new_one(site: Site) -> Result<()> {
    let ground = site.plain("move").await?;
    let [old, new, both] = ["uses-old", "uses-new", "uses-both"].map(|user| site.name(user));
    grant(&ground, &old, Some(&["old"])).await?;
    grant(&ground, &new, Some(&["new"])).await?;
    grant(&ground, &both, Some(&["old", "new"])).await?;
    ground.set_label(DISPATCH, json!("old")).await?;
    let change = label(DISPATCH, json!("new"));
    let sentence = "dispatchpolicies.portcullis.dev old, new,";
    refused(
        ground
            .user(&old)
            .patch("namespaces", &ground.namespace, "", &change)
            .await,
        sentence,
    )?;
    refused(
        ground
            .user(&new)
            .patch("namespaces", &ground.namespace, "", &change)
            .await,
        sentence,
    )?;
    ground
        .user(&both)
        .patch("namespaces", &ground.namespace, "", &change)
        .await?;
    Ok(())
}

async fn status_and_finalize_are_no_way_around(site: Site) -> Result<()> {
    let ground = site.plain("detour").await?;
    let (nobody, user) = (site.name("no-use-detour"), site.name("uses-detour"));
    grant(&ground, &nobody, Some(&[])).await?;
    grant(&ground, &user, Some(&["a", "b"])).await?;
    let opt_in = label(DISPATCH, json!("a"));
    let name = ground.namespace.clone();
    refused(
        ground
            .user(&nobody)
            .patch("namespaces", &name, "status", &opt_in)
            .await,
        "needs the verb use",
    )?;
    ground
        .user(&user)
        .patch("namespaces", &name, "status", &opt_in)
        .await?;
    let mut whole = ground.admin().get("namespaces", &name).await?;
    for value in [json!("b"), Value::Null] {
        whole["metadata"]["labels"][DISPATCH] = value;
        let answer = ground
            .user(&nobody)
            .replace("namespaces", &name, "finalize", &whole)
            .await;
        refused(answer, "needs the verb use")?;
    }
    whole["metadata"]["labels"][DISPATCH] = json!("b");
    whole["metadata"]
        .as_object_mut()
        .expect("an object")
        .remove("resourceVersion");
    ground
        .user(&user)
        .replace("namespaces", &name, "finalize", &whole)
        .await?;
    let now = ground.admin().get("namespaces", &name).await?;
    ensure!(
        now["metadata"]["labels"][DISPATCH] == "b",
        "labels do change through finalize: {now}"
    );
    Ok(())
}

async fn a_namespace_is_not_created_opted_in_without_use(site: Site) -> Result<()> {
    let ground = site.plain("creator").await?;
    let (nobody, user) = (site.name("no-use-create"), site.name("uses-create"));
    grant(&ground, &nobody, Some(&[])).await?;
    grant(&ground, &user, Some(&["a"])).await?;
    let manifest = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"generateName": "made-", "labels": {DISPATCH: "a"}},
    });
    refused(
        ground.user(&nobody).create("namespaces", &manifest).await,
        "needs the verb use",
    )?;
    ground.user(&user).create("namespaces", &manifest).await?;
    Ok(())
}

async fn the_gang_label_needs_use_of_any_policy(site: Site) -> Result<()> {
    let ground = site.plain("gang").await?;
    let (user, all) = (site.name("uses-gang"), site.name("uses-all-gang"));
    grant(&ground, &user, Some(&["a"])).await?;
    grant(&ground, &all, None).await?;
    let set = label("portcullis.dev/gang", json!("auto"));
    refused(
        ground
            .user(&user)
            .patch("namespaces", &ground.namespace, "", &set)
            .await,
        "without resourceNames",
    )?;
    ground
        .user(&all)
        .patch("namespaces", &ground.namespace, "", &set)
        .await?;
    let unset = label("portcullis.dev/gang", Value::Null);
    refused(
        ground
            .user(&user)
            .patch("namespaces", &ground.namespace, "status", &unset)
            .await,
        "without resourceNames",
    )
}

async fn allow_exempt_needs_use_of_the_policy_of_the_namespace(site: Site) -> Result<()> {
    let ground = site.plain("permits").await?;
    let [a, b, all] = ["permits-a", "permits-b", "permits-all"].map(|user| site.name(user));
    grant(&ground, &a, Some(&["a"])).await?;
    grant(&ground, &b, Some(&["b"])).await?;
    grant(&ground, &all, None).await?;
    let allow = label("portcullis.dev/allow-exempt", json!("true"));
    let forbid = label("portcullis.dev/allow-exempt", Value::Null);
    let namespace = &ground.namespace;
    // Without a policy there is nobody in particular to ask.
    refused(
        ground.user(&a).patch("namespaces", namespace, "", &allow).await,
        "of any name",
    )?;
    ground
        .user(&all)
        .patch("namespaces", namespace, "", &allow)
        .await?;
    ground
        .user(&all)
        .patch("namespaces", namespace, "", &forbid)
        .await?;
    ground.set_label(DISPATCH, json!("a")).await?;
    refused(
        ground.user(&b).patch("namespaces", namespace, "", &allow).await,
        "dispatchpolicies.portcullis.dev a,",
    )?;
    ground.user(&a).patch("namespaces", namespace, "", &allow).await?;
    refused(
        ground.user(&b).patch("namespaces", namespace, "", &forbid).await,
        "dispatchpolicies.portcullis.dev a,",
    )?;
    ground
        .user(&a)
        .patch("namespaces", namespace, "", &forbid)
        .await?;
    Ok(())
}

async fn an_empty_value_is_an_opt_in_too(site: Site) -> Result<()> {
    let ground = site.plain("empty-value").await?;
    let user = site.name("uses-one");
    grant(&ground, &user, Some(&["a"])).await?;
    let answer = ground
        .user(&user)
        .patch("namespaces", &ground.namespace, "", &label(DISPATCH, json!("")))
        .await;
    refused(answer, "needs the verb use")
}

async fn other_labels_change_freely(site: Site) -> Result<()> {
    let ground = site.plain("other-labels").await?;
    let nobody = site.name("no-use-other");
    grant(&ground, &nobody, Some(&[])).await?;
    ground.set_label(DISPATCH, json!("a")).await?;
    for subresource in ["", "status"] {
        let patch = label("team", json!(subresource));
        ground
            .user(&nobody)
            .patch("namespaces", &ground.namespace, subresource, &patch)
            .await?;
    }
    Ok(())
}

async fn protected_namespaces_are_never_opted_in(site: Site) -> Result<()> {
    let ground = site.plain("protects").await?;
    for namespace in ["kube-system", "kube-node-lease", "portcullis-system"] {
        for key in ["dispatch", "gang", "allow-exempt"] {
            for subresource in ["", "status"] {
                let patch = label(&format!("portcullis.dev/{key}"), json!("a"));
                let answer = ground
                    .admin()
                    .patch("namespaces", namespace, subresource, &patch)
                    .await;
                refused(
                    answer,
                    &format!("the namespace {namespace} keeps its pods on this cluster"),
                )?;
            }
        }
        ground
            .admin()
            .patch("namespaces", namespace, "", &label("team", json!("a")))
            .await?;
    }
    Ok(())
}
