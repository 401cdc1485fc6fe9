use bluetick_client::{Client, ClientSettings, FileStorage, FixedToken, Server, Tick, log_in};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ask_bob("http://127.0.0.1:8080", "./alice").await
}

async fn ask_bob(url: &str, directory: &str) -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new(url.parse()?)?;
    let session = log_in(&server, &"alice".parse()?, "correct horse").await?;
    let storage = FileStorage::open(directory.as_ref())?;
    let settings = ClientSettings::new(server, session.user_id, FixedToken(session.token));
    let client = Client::start(settings, storage).await?;

    let bob = client.open_direct(&"bob".parse()?).await?;
    bob.send("Lunch?").await?; // stored on disk when this returns, with or without a network

    let mut changes = client.changes();
    let is_read = || {
        let view = bob.view();
        view.messages.last().is_some_and(|last| view.tick(last) == Some(Tick::Read))
    };
    while !is_read() {
        changes.changed().await?;
    }
    println!("bob has read it");
    client.stop().await;
    Ok(())
}
